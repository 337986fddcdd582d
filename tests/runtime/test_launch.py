"""Ranks as processes: results come back, failures are named, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy
import pytest

from coconet.errors import CollectiveTimeout, PeerFailed
from coconet.runtime import launch, ranks
from coconet.runtime.launch import spawn
from coconet.runtime.testing import Fault, run_ranks
from coconet.runtime.travel import dumps, loads

pytestmark = pytest.mark.multiproc

SRC = Path(launch.__file__).parents[2]
RUN = """
import sys
from coconet.runtime.launch import run_script
sys.exit(run_script(int(sys.argv[1]), sys.argv[2:]))
"""


def rank() -> int:
    return int(os.environ["COCONET_RANK"])


def wait_for(condition: Callable[[], object], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


# values


VALUES = [
    None,
    True,
    -3,
    2.5,
    float("inf"),
    "text \u00e9\n",
    b"\x00\xff",
    [1, [2.0, "a"]],
    (1, (2, [3])),
    {"a": 1, 2: (3, b"c"), (4, 5): {}},
    {"tuple": [1], "array": "not one"},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_travel(value: object):
    back = loads(dumps(value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
        numpy.arange(24).reshape(4, 6)[::2, ::3],
        numpy.zeros((0, 3), numpy.float16),
        numpy.array(3.5),
        numpy.array([True, False]),
        numpy.array([1 + 2j]),
        numpy.array([numpy.nan, -0.0], ml_dtypes.bfloat16),
        numpy.arange(3, dtype=ml_dtypes.float8_e4m3fn),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_travel_bit_for_bit(array: numpy.ndarray):
    (back,) = loads(dumps([array]))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()
    assert back.flags.writeable


def test_foreign_byte_order_and_scalars_travel():
    back = loads(dumps(numpy.array([1, 2], ">i4")))
    assert back.tolist() == [1, 2]
    scalar = loads(dumps(numpy.float32(0.1)))
    assert (type(scalar), scalar) == (numpy.float32, numpy.float32(0.1))


@pytest.mark.parametrize("value", [object(), {1, 2}, numpy.array(["a"]), [print]])
def test_other_values_do_not_travel(value: object):
    with pytest.raises(TypeError, match=r"do(es)? not travel"):
        dumps(value)


def test_cut_bytes_are_noticed():
    with pytest.raises(ValueError, match=r"buffer|reshape"):
        loads(dumps(numpy.arange(10))[:-5])


# spawn


def scaled(x: numpy.ndarray, *, by: int) -> dict[str, object]:
    return {"rank": rank(), "x": x * by, "env": os.environ["OMP_NUM_THREADS"]}


def test_results_come_back_by_rank(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    descriptors = len(os.listdir("/proc/self/fd"))
    x = numpy.arange(1 << 18, dtype=numpy.float64)
    results = spawn(scaled, 3, x, by=2)
    assert [result["rank"] for result in results] == [0, 1, 2]
    assert all((result["x"] == 2 * x).all() for result in results)
    assert [result["env"] for result in results] == ["1", "1", "1"]
    assert len(os.listdir("/proc/self/fd")) == descriptors


def where_am_i() -> list[object]:
    names = ("COCONET_RANK", "COCONET_SIZE", "COCONET_RUN")
    place = [os.environ[name] for name in names]
    return [*place, sorted(os.sched_getaffinity(0)), os.getpgid(0) == os.getpid()]


def test_ranks_know_their_place():
    (rank0, size0, run0, cpus0, leads0), (rank1, size1, run1, cpus1, leads1) = spawn(
        where_am_i, 2
    )
    assert (rank0, size0, rank1, size1) == ("0", "2", "1", "2")
    assert run0 == run1
    assert leads0
    assert leads1
    if len(os.sched_getaffinity(0)) >= 2:
        assert not set(cpus0) & set(cpus1)


def raise_on(victim: int) -> int:
    if rank() == victim:
        raise ValueError("boom\nand more")
    return rank()


def test_raising_rank_is_named():
    with pytest.raises(PeerFailed) as caught:
        spawn(raise_on, 3, 1)
    error = caught.value
    assert error.what == "rank 1 of 3 raised ValueError: boom"
    assert error.ranks == (1,)
    line = raise_on.__code__.co_firstlineno + 2
    assert error.at == f"{__file__}:{line}"
    assert 'raise ValueError("boom' in str(error.got)
    assert "runpy" not in str(error.got)
    assert "child.py" not in str(error.got)


def victims_speak_first(marker: str) -> None:
    if rank() != 2:
        Path(f"{marker}{rank()}").touch()
        raise PeerFailed("rank 2 is gone", ranks=(2,))
    wait_for(lambda: Path(marker + "0").exists() and Path(marker + "1").exists())
    raise KeyError("cause")


def test_cause_comes_before_its_victims(tmp_path: Path):
    with pytest.raises(PeerFailed) as caught:
        spawn(victims_speak_first, 3, str(tmp_path / "spoke"))
    assert caught.value.what == "rank 2 of 3 raised KeyError: 'cause'"
    assert str(caught.value.got).endswith(
        "also failed: rank 0 (PeerFailed), rank 1 (PeerFailed)"
    )


def end_by(how: str) -> None:
    if rank() == 1:
        print("last words", file=sys.stderr)
        {"kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
         "segv": lambda: os.kill(os.getpid(), signal.SIGSEGV),
         "exit": lambda: os._exit(3),
         "sys.exit": lambda: sys.exit(4),
         "leave": lambda: sys.exit(0)}[how]()  # fmt: skip
    elif how == "kill":
        raise RuntimeError("connection lost, seen before the death of rank 1")


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("kill", "was killed by SIGKILL"),
        ("segv", "was killed by SIGSEGV"),
        ("exit", "ended with exit code 3"),
        ("sys.exit", "ended with exit code 4"),
        ("leave", "ended before the function returned"),
    ],
)
def test_silent_deaths_are_named(how: str, what: str):
    with pytest.raises(PeerFailed) as caught:
        spawn(end_by, 2, how)
    assert caught.value.what == f"rank 1 of 2 {what}"
    assert caught.value.ranks == (1,)
    assert "last words" in str(caught.value.got)


def fail_while_others_hang(folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    helper = subprocess.Popen(["sleep", "600"])
    Path(folder, f"{rank()}").write_text(f"{os.getpid()} {helper.pid}")
    wait_for(lambda: len(list(Path(folder).iterdir())) == 3)
    if rank() == 0:
        raise ValueError("alone")
    time.sleep(600)


def test_peers_and_their_children_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ranks, "FAIL_GRACE_S", 0.1)
    monkeypatch.setattr(ranks, "TERM_GRACE_S", 0.1)
    with pytest.raises(PeerFailed) as caught:
        spawn(fail_while_others_hang, 3, str(tmp_path))
    assert caught.value.ranks == (0,)
    assert "stopped: rank 1, rank 2" in str(caught.value.got)
    pids = [int(p) for x in tmp_path.iterdir() for p in x.read_text().split()]
    assert len(pids) == 6
    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def hang_on(victim: int) -> None:
    while rank() == victim:
        time.sleep(0.1)


def test_timeout_names_who_is_late_and_where():
    with pytest.raises(CollectiveTimeout) as caught:
        spawn(hang_on, 2, 1, timeout_s=2.0)
    assert caught.value.what == "1 of 2 ranks had not returned after 2 s"
    assert caught.value.ranks == (1,)
    assert "hang_on" in str(caught.value.got)


def test_interrupt_stops_the_ranks(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "from pathlib import Path\n"
        "from coconet.runtime.launch import spawn\n"
        "def wait():\n"
        f"    Path({str(tmp_path)!r}, os.environ['COCONET_RANK']).write_text(\n"
        "        str(os.getpid()))\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        "        spawn(wait, 2)\n"
        "    except KeyboardInterrupt:\n"
        "        print('stopped')\n"
    )
    process = python(str(script))
    pids = pids_of(tmp_path, 2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "stopped\n")
    assert not any(is_alive(pid) for pid in pids)


def test_local_functions_are_refused():
    with pytest.raises(ValueError, match="top level"):
        spawn(lambda: None, 1)
    with pytest.raises(TypeError, match="not a function"):
        spawn(print, 1)
    with pytest.raises(ValueError, match="number of ranks"):
        spawn(hang_on, 0, 1)


# functions of scripts, modules and notebooks


def python(*argv: str, path: Path = SRC) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{SRC}:{path}"},
    )


def output(*argv: str, path: Path = SRC) -> str:
    process = python(*argv, path=path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


SCRIPT = """
import os
from coconet.runtime.launch import spawn
OFFSET = 10
def shifted(x):
    return x + OFFSET + int(os.environ["COCONET_RANK"])
if __name__ == "__main__":
    print(spawn(shifted, 2, 5))
"""


def test_function_of_a_script_or_module(tmp_path: Path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "script.py").write_text(SCRIPT)
    assert output(str(package / "script.py")) == "[15, 16]\n"
    assert output("-m", "package.script", path=tmp_path) == "[15, 16]\n"


def test_script_without_a_guard_says_so(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    process = python(str(script))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "put that call under `if __name__" in err


# as a notebook does: cells are compiled one by one, and their lines are kept
NOTEBOOK = """
import linecache, sys
def cell(number, text):
    name = f"<cell {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), sys.modules["__main__"].__dict__)
cell(1, "import numpy as np\\nimport os\\nN = 3\\n"
        "def helper(x):\\n    return x * N")
cell(2, "def main(x):\\n    if os.environ['COCONET_RANK'] == str(x[0]):\\n"
        "        raise ValueError('no')\\n    return helper(np.asarray(x)).tolist()")
from coconet.errors import PeerFailed
from coconet.runtime.launch import spawn
print(spawn(main, 2, [5, 6]))
try:
    spawn(main, 2, [1, 6])
except PeerFailed as error:
    print(error)
bad = object()
cell(3, "def uses_bad():\\n    return bad")
try:
    spawn(uses_bad, 2)
except TypeError as error:
    print(error)
"""


def test_function_of_a_notebook():
    lines = output("-c", NOTEBOOK).splitlines()
    assert lines[0] == "[[15, 18], [15, 18]]"
    assert lines[1].startswith("rank 1 of 2 raised ValueError: no")
    assert any("raise ValueError('no')" in line for line in lines)
    assert lines[-1].startswith("the function uses the global bad: builtins.object")


# run_script


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def run(n: int, *argv: str) -> subprocess.Popen[str]:
    return python("-c", RUN, str(n), *argv)


def pids_of(folder: Path, n: int) -> list[int]:
    """Wait until n ranks have written their pid to files named by rank."""
    files = [folder / str(rank) for rank in range(n)]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files))
    return [int(file.read_text()) for file in files]


SLEEPER = """
    import os, sys, time
    from pathlib import Path
    Path(sys.argv[1], os.environ["COCONET_RANK"]).write_text(str(os.getpid()))
    time.sleep(600)
"""


def test_script_runs_as_by_python(tmp_path: Path):
    (tmp_path / "sibling.py").write_text("NAME = 'sibling'\n")
    path = script(
        tmp_path,
        """
        import os, sys
        import sibling
        print(os.environ["COCONET_RANK"], __name__, sys.argv[1:], sibling.NAME, flush=1)
        print("note", file=sys.stderr)
        """,
    )
    process = run(2, path, "--flag", "a b")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    said = "__main__ ['--flag', 'a b'] sibling"
    assert sorted(out.splitlines()) == [f"0 {said}", f"1 {said}"]
    assert sorted(err.splitlines()) == ["[0] note", "[1] note"]


def test_module_runs_as_by_python():
    process = run(1, "-m", "json.tool", "--help")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "usage" in out


def test_failure_is_printed_once_with_its_cause_first(tmp_path: Path):
    path = script(
        tmp_path,
        """
        import os
        from coconet.errors import PeerFailed
        if os.environ["COCONET_RANK"] == "1":
            raise ValueError("boom")
        raise PeerFailed("rank 1 is gone", ranks=(1,))
        """,
    )
    process = run(2, path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    lines = err.splitlines()
    assert lines[0] == f"coconet: rank 1 of 2 raised ValueError: boom  ({path}:5)"
    assert lines[1:3] == [
        "  Traceback (most recent call last):",
        f'    File "{path}", line 5, in <module>',
    ]
    assert lines[-2:] == ["  ValueError: boom", "  also failed: rank 0 (PeerFailed)"]


def test_failure_in_our_code_names_the_users_line(tmp_path: Path):
    path = script(
        tmp_path,
        """
        import coconet
        dp = coconet.Group("dp")
        coconet.tensor("my grad", coconet.f32, (1,), coconet.Local(), dp)
        """,
    )
    process = run(1, path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    first = err.splitlines()[0]
    assert first.startswith("coconet: rank 0 of 1 raised ValueError: a name is")
    assert first.endswith(f"  ({path}:4)")


def test_missing_script_is_named_without_a_line(tmp_path: Path):
    process = run(1, str(tmp_path / "missing.py"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines()[0].endswith("missing.py'")


def test_death_by_signal_sets_the_exit_code(tmp_path: Path):
    path = script(tmp_path, "import os; os.kill(os.getpid(), 11)")
    process = run(1, path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGSEGV
    assert "coconet: rank 0 of 1 was killed by SIGSEGV" in err
    assert "script.py" in err  # from faulthandler


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGINT, "coconet: interrupted; 2 ranks stopped"),
        (signal.SIGTERM, "coconet: got SIGTERM; 2 ranks stopped"),
        (signal.SIGHUP, "coconet: got SIGHUP; 2 ranks stopped"),
    ],
)
def test_signal_to_the_launcher_stops_all(number: int, line: str, tmp_path: Path):
    process = run(2, script(tmp_path, SLEEPER), str(tmp_path))
    pids = pids_of(tmp_path, 2)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert err == line + "\n"
    assert not any(is_alive(pid) for pid in pids)


def test_second_interrupt_does_not_wait(tmp_path: Path):
    deaf = "import signal\n" + "".join(
        f"signal.signal({number:d}, signal.SIG_IGN)\n"
        for number in (signal.SIGINT, signal.SIGTERM)
    )
    path = script(tmp_path, deaf + textwrap.dedent(SLEEPER))
    process = run(2, path, str(tmp_path))
    pids = pids_of(tmp_path, 2)
    process.send_signal(signal.SIGTERM)  # alone this would take 10 s
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert not any(is_alive(pid) for pid in pids)


def test_killed_launcher_leaves_no_orphans(tmp_path: Path):
    process = run(3, script(tmp_path, SLEEPER), str(tmp_path))
    pids = pids_of(tmp_path, 3)
    process.kill()
    process.wait()
    wait_for(lambda: not any(is_alive(pid) for pid in pids), limit_s=3)
    process.communicate()


def test_closed_output_ends_the_ranks(tmp_path: Path):
    path = script(tmp_path, "while True: print('line' * 100)")
    process = run(1, path)
    assert process.stdout
    assert process.stdout.readline().startswith("line")
    process.stdout.close()
    assert process.wait(timeout=20) != 0
    assert process.stderr
    assert "BrokenPipeError" in process.stderr.read()
    process.stderr.close()


# run_ranks


def leave(what: str) -> str:
    if what == "process":
        return str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
    name = f"/dev/shm/coconet-test-{os.getpid()}"
    Path(name).touch()
    return name


def test_outcome_of_a_clean_run():
    outcome = run_ranks(2, raise_on, 5)
    assert outcome.results == (0, 1)
    assert outcome.returncodes == (0, 0)
    assert outcome.leaks == ()
    assert outcome.wall_s > 0


def test_outcome_of_a_failure():
    outcome = run_ranks(2, raise_on, 1)
    assert outcome.results == (0, None)
    assert outcome.returncodes == (0, 1)
    assert "ValueError: boom" in outcome.stderr[1]


def test_faults_hit_their_rank(monkeypatch: pytest.MonkeyPatch):
    outcome = run_ranks(2, raise_on, 5, fault=Fault(rank=1))
    assert outcome.returncodes == (0, -signal.SIGKILL)
    fault = Fault(rank=0, signal=signal.SIGTERM, after_s=0.1)
    outcome = run_ranks(1, hang_on, 0, fault=fault)
    assert outcome.returncodes == (-signal.SIGTERM,)
    outcome = run_ranks(1, raise_on, 5, fault=Fault(0, signal.SIGSTOP), timeout_s=1)
    assert outcome.returncodes == (-signal.SIGKILL,)
    assert outcome.leaks == ()


def test_leaks_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("coconet.runtime.testing.LEAK_GRACE_S", 0.1)
    outcome = run_ranks(1, leave, "process")
    pid = outcome.results[0]
    assert outcome.leaks == (f"process {pid}",)
    os.kill(int(pid), signal.SIGKILL)
    outcome = run_ranks(1, leave, "name")
    assert outcome.leaks == outcome.results
    Path(outcome.results[0]).unlink()
