"""The C backend on real processes: many programs in one world."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_files import load

from coconet.runtime.testing import run_ranks
from coconet.verification import verify_on_processes

HERE = Path(__file__).parent
OPTIMIZERS = Path(__file__).parents[2] / "src/coconet/workloads/optimizers.py"


@pytest.mark.slow
@pytest.mark.multiproc
@pytest.mark.timeout(300)
@pytest.mark.parametrize("ranks", [1, 3])
def test_programs_equal_the_interpreter(ranks: int) -> None:
    programs = load(HERE / "c_programs.py")
    outcome = run_ranks(ranks, programs.check_programs, timeout_s=280)
    assert outcome.returncodes == (0,) * ranks, outcome.stderr
    for lines in outcome.results:
        *wrong, count = lines
        assert wrong == []
        assert int(count.split()[0]) > 500


@pytest.mark.slow
@pytest.mark.multiproc
@pytest.mark.timeout(300)
def test_functions_equal_the_interpreter() -> None:
    programs = load(HERE / "c_functions.py")
    outcome = run_ranks(2, programs.check_functions, timeout_s=280)
    assert outcome.returncodes == (0, 0), outcome.stderr
    assert outcome.results == (["48 programs"],) * 2


@pytest.mark.multiproc
@pytest.mark.timeout(300)
def test_reductions_and_views_equal_the_interpreter() -> None:
    programs = load(HERE / "c_programs.py")
    outcome = run_ranks(3, programs.check_reductions, timeout_s=280)
    assert outcome.returncodes == (0, 0, 0), outcome.stderr
    for lines in outcome.results:
        *wrong, count = lines
        assert wrong == []
        assert int(count.split()[0]) > 250


@pytest.mark.multiproc
def test_optimizers_equal_the_interpreter_in_every_schedule() -> None:
    for name in ("sgd", "adam"):
        report = verify_on_processes(OPTIMIZERS, name, (1, 2, 3, 4))
        assert report.mismatches == ()
        schedules = {case.schedule for case in report.cases}
        assert {"as_written", "one_shot", "fused", "fused_sliced"} <= schedules
        assert {case.sizes["N"] for case in report.cases} >= {0, 1, 63, 64, 65, 10007}


@pytest.mark.multiproc
def test_a_wrong_kernel_is_noticed() -> None:
    programs = load(HERE / "c_faulty.py")
    outcome = run_ranks(2, programs.check_mutants, timeout_s=60)
    assert outcome.returncodes == (0, 0), outcome.stderr
    for found in outcome.results:
        assert found == {"sub for add": True, "no mean": True, "as it is": False}


@pytest.mark.multiproc
def test_calls_and_their_misuse() -> None:
    programs = load(HERE / "c_calls.py")
    outcome = run_ranks(2, programs.check_calls, timeout_s=60)
    assert outcome.returncodes == (0, 0), outcome.stderr
    for results in outcome.results:
        assert results == dict.fromkeys(results, "ok")
        assert len(results) >= 10


@pytest.mark.multiproc
def test_an_updated_tensor_without_dims_is_verified(tmp_path: Path) -> None:
    file = tmp_path / "counting.py"
    file.write_text(
        "import coconet as cc\n"
        "n = cc.tensor('n', cc.i64, (), cc.Replicated(), cc.Group('dp'))\n"
        "count = cc.program('count', inputs=[n], outputs=[cc.update(n, n + 1)])\n"
    )
    report = verify_on_processes(file, "count", (1,))
    assert report.cases
    assert report.mismatches == ()
