"""The facts of a run for people: a page of HTML, and lines for the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import jinja2

from coconet.demo.checks import FIRST, FIRST_TOLERANCE, Check, differences
from coconet.demo.curves import chart
from coconet.demo.facts import Facts, Side, Spread

__all__ = ["page", "summary"]

TEMPLATE = "report.html"


def page(facts: Facts, checks: list[Check]) -> str:
    """Return one HTML page that needs nothing else."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(bytes=_bytes, ms=_ms)
    ours, reference = facts.ours, facts.reference
    apart = differences(ours.losses, reference.losses)
    return environment.get_template(TEMPLATE).render(
        facts=facts,
        sides=(ours, reference),
        checks=checks,
        passed=all(check.passed for check in checks),
        ratios=_ratios(facts),
        machine=_machine(facts),
        losses=chart({reference.name: reference.losses, ours.name: ours.losses}),
        apart=chart({"difference": apart}, is_log=True, limit=FIRST_TOLERANCE),
        first=FIRST,
    )


def summary(facts: Facts, checks: list[Check]) -> str:
    """Return what is printed at the end."""
    ours, reference = facts.ours, facts.reference
    head = (
        "median ms (p10..p90)",
        "iteration",
        "forward+backward",
        "the rest",
        "optimizer state",
    )
    rows = [head, _row(ours), _row(reference)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    verdicts = [
        f"{'pass' if check.passed else 'FAIL'}  {check.what}: {check.got}"
        f" (need: {check.need})"
        for check in checks
    ]
    ratio = (
        f"The rest, exchange and update, takes {reference.name} "
        f"{_ratios(facts)['rest']} as long."
    )
    return "\n".join(
        [
            *table,
            *(facts.notes if facts.is_exact else [ratio]),
            *("", "Schedule:", facts.listing.schedule, ""),
            *verdicts,
        ]
    )


def _row(side: Side) -> tuple[str, ...]:
    times = (side.iteration, side.alone, side.rest)
    return (side.name, *map(_spread, times), f"{_bytes(max(side.state_bytes))} a rank")


def _machine(facts: Facts) -> list[tuple[str, object]]:
    """Return the facts about the machine, each as one line."""
    return [
        (name.removesuffix("_bytes").replace("_", " "), _in_words(name, value))
        for name, value in facts.machine.items()
    ]


def _in_words(name: str, value: object) -> object:
    match value:
        case dict():
            sizes = cast("dict[str, int]", value)
            return ", ".join(f"{level} {_bytes(size)}" for level, size in sizes.items())
        case int() if name.endswith("_bytes"):
            return _bytes(value)
        case _:
            return value


def _ratios(facts: Facts) -> dict[str, str]:
    """Return how many times ours the reference takes, in words."""
    ours, reference = facts.ours, facts.reference
    return {
        "iteration": _times(reference.iteration.median_ms, ours.iteration.median_ms),
        "rest": _times(reference.rest.median_ms, ours.rest.median_ms),
        "state": _times(max(reference.state_bytes), max(ours.state_bytes)),
    }


def _times(reference: float, ours: float) -> str:
    # A difference of two times may be lost in their noise.
    return f"{reference / ours:.1f} times" if ours > 0 else "immeasurably many times"


def _spread(spread: Spread) -> str:
    low, high = _ms(spread.p10_ms), _ms(spread.p90_ms)
    return f"{_ms(spread.median_ms)} ({low}..{high})"


def _ms(number: float) -> str:
    """Return milliseconds with as many digits as they deserve."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _bytes(number: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    power = min((max(number, 1).bit_length() - 1) // 10, 3)
    unit = ("bytes", "KiB", "MiB", "GiB")[power]
    return f"{number / 1024**power:.4g} {unit}"
