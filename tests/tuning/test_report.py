"""Reports of tunings, as text, as JSON, and as an error."""

from __future__ import annotations

import msgspec
import pytest

from coconet.errors import ScheduleError
from coconet.tuning.report import Report, Row, time_text


def row(name: str, median_s: float | None = None, **fields: object) -> Row:
    usual = {
        "steps": (),
        "knobs": "",
        "estimate_s": 2e-3,
        "low_s": median_s,
        "high_s": median_s,
        "turns": 4,
        "verdict": "chosen",
    }
    return Row(name=name, median_s=median_s, **(usual | fields))


def report(*rows: Row, **fields: object) -> Report:
    usual = {
        "program": "adam",
        "ranks": 2,
        "sizes": {"N": 1024},
        "explored": 9,
        "was_capped": False,
        "refused": (("fuse(a | b)", "two chains"),),
        "wall_s": 1.25,
        "was_interrupted": False,
        "was_late": False,
    }
    return Report(rows=rows, **(usual | fields))


WON = report(
    row("schedule 3", 5e-4, steps=("Split('avg')", "Fuse('a')")),
    row("as_written", 2e-3, verdict="4.00x the time"),
    row("as_written", 2.1e-3, knobs="block_elements=512", verdict="4.20x the time"),
    row("schedule 7", verdict="not timed: the estimate"),
)
LOST = report(row("unfused", 2.0), row("schedule 1", 3.0), was_late=True)


def test_the_table_shows_everything():
    lines = str(WON).splitlines()
    assert lines[0] == (
        "adam on 2 ranks at N=1024: 9 schedules; 3 candidates timed in 1.2 s"
    )
    assert lines[2].split("  ")[0] == "schedule 3"
    assert "500 us .. 500 us  chosen" in lines[2]
    assert "as_written block_elements=512" in lines[4]
    assert lines[5].endswith("not timed: the estimate")
    assert lines[-2:] == ["  Split('avg')", "  Fuse('a')"]
    assert "nan" not in str(WON)
    assert "None" not in str(WON)


def test_an_early_end_is_said():
    assert "out of time" in str(LOST)
    stopped = msgspec.structs.replace(LOST, was_interrupted=True, was_capped=True)
    assert "interrupted, the best so far is kept" in str(stopped)
    assert "and there are more" in str(stopped)


def test_winner_and_baseline():
    assert WON.best.name == "schedule 3"
    assert (WON.baseline.name, WON.baseline.knobs) == ("as_written", "")
    assert LOST.baseline is LOST.best
    assert WON.is_whole
    assert not report().is_whole
    assert not report(row("schedule 1", 1.0)).is_whole
    assert not report(row("schedule 1"), row("unfused", 1.0)).is_whole


def test_strict_raises_if_no_fusion_won():
    WON.raise_if_nothing_won()
    with pytest.raises(ScheduleError, match="nothing is faster") as caught:
        LOST.raise_if_nothing_won()
    assert "unfused" not in str(caught.value.need)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5e-6, "1.5 us"), (9.994e-4, "999 us"), (0.25, "250 ms"), (12.0, "12 s")],
)
def test_times_have_three_digits(seconds, text):
    assert time_text(seconds) == text
    assert time_text(None) == ""
