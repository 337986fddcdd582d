"""The command line itself: what it offers, and how it ends."""

from __future__ import annotations

import pytest
from typer.main import get_command

from coconet.cli import doctor
from coconet.cli.main import app, main
from coconet.errors import CoconetError

# Names that scripts rely on: adding one is fine, losing one is not.
OPTIONS = {
    "bench": {"workload", "--json", "--ranks", "--sizes", "--dtype", "--engines"},
    "demo": {"--json", "--out", "--ranks"},
    "doctor": {"--json"},
    "run": {"script", "arguments", "-m", "-n", "--ranks", "--pin", "--no-pin"},
    "show": {
        *("target", "--code", "--dim", "--json", "--plan", "--ranks", "--schedule"),
        *("--slice-state", "--why"),
    },
    "tune": {
        *("target", "--dim", "--fresh", "--json", "--limit", "--out", "--ranks"),
        *("--slice-state", "--strict", "--time-box"),
    },
    "verify": {"target", "--json", "--ranks"},
}


def exit_code(*arguments: str) -> object:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


def test_commands_and_options_are_the_promised_ones():
    commands = get_command(app).commands
    found = {
        name: {x for p in command.params for x in (*p.opts, *p.secondary_opts)}
        for name, command in commands.items()
    }
    assert found == OPTIONS


def test_help_names_every_command(capsys):
    assert exit_code("--help") == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in OPTIONS)


def test_version(capsys):
    assert exit_code("--version") == 0
    assert capsys.readouterr().out.startswith("coconet ")


@pytest.fixture
def broken_doctor(monkeypatch):
    def fail(**_: object) -> int:
        raise CoconetError("wrong layout", got="R", need="L")

    monkeypatch.setattr(doctor, "main", fail)


@pytest.mark.usefixtures("broken_doctor")
def test_an_error_of_ours_is_its_text_and_exit_1(capsys):
    assert exit_code("doctor") == 1
    text = capsys.readouterr().err
    assert text == "CoconetError: wrong layout\n  got:  R\n  need: L\n"


@pytest.mark.usefixtures("broken_doctor")
def test_traceback_lets_the_error_out():
    with pytest.raises(CoconetError):
        main(["--traceback", "doctor"])


@pytest.mark.parametrize("ranks", ["0", "2,x", "", "2,-1"])
def test_wrong_rank_counts_are_a_usage_error(ranks, capsys):
    assert exit_code("verify", "f.py:p", "--ranks", ranks) == 2
    assert "2,3,4" in capsys.readouterr().err


def test_interrupt_is_130(monkeypatch):
    def interrupt(**_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "main", interrupt)
    assert exit_code("doctor") == 130
