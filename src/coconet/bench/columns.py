"""Tables with a column per engine: long names stand above, columns have letters."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

from coconet.bench.engines.table import exchanged_dtype

__all__ = ["header", "line"]

_WIDTH = 10


def header(names: Sequence[str], dtype: str) -> str:
    """Return the legend and the head; an engine that takes another dtype says so."""
    first, *others = names
    letters = ascii_lowercase[: len(others)]
    legend = [
        f"  {letter}  {name}{_other_dtype(name, dtype)}"
        for letter, name in zip(letters, others, strict=True)
    ]
    head = "".join(f"{word:>{_WIDTH}}" for word in ("elements", first, *letters))
    return "\n".join([*legend, head])


def line(elements: int, cells: Sequence[float]) -> str:
    """Return one row."""
    return f"{elements:>{_WIDTH}}" + "".join(f"{cell:>{_WIDTH}.4g}" for cell in cells)


def _other_dtype(name: str, dtype: str) -> str:
    exchanged = exchanged_dtype(name, dtype)
    return "" if exchanged == dtype else f", in {exchanged}"
