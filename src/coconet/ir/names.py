"""Names of values: which there can be, and those of values the user gave none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from keyword import iskeyword

__all__ = ["default_names", "is_name", "spans", "spelled_out"]

_NUMBER = re.compile(r"_([1-9][0-9]{0,8})")
_SPAN = re.compile(rf"{_NUMBER.pattern}\.\.{_NUMBER.pattern}")


def is_name(text: object) -> bool:
    """Whether this is a text that Python reads as a name, and as this very one."""
    if not isinstance(text, str):
        return False
    if text.isascii():
        return text.isidentifier() and not iskeyword(text)
    from unicodedata import normalize

    return text.isidentifier() and normalize("NFKC", text) == text


def default_names(given: Sequence[str]) -> list[str]:
    """Put _k for each "", where k follows the last number, as `cc.program` does."""
    taken = set(given)
    names: list[str] = []
    number = 0
    for name in given:
        if match := _NUMBER.fullmatch(name):
            number = int(match[1])
        elif not name:
            number += 1
            while f"_{number}" in taken:
                number += 1
        names.append(name or f"_{number}")
    return names


def spans(names: Sequence[str]) -> str:
    """Return names as a list, in which _1.._3 stands for _1, _2, _3."""
    runs: list[list[str]] = []
    for name in names:
        match = _NUMBER.fullmatch(name)
        if match and runs and runs[-1][-1] == f"_{int(match[1]) - 1}":
            runs[-1].append(name)
        else:
            runs.append([name])
    texts = (run[0] if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)
    return ", ".join(texts)


def spelled_out(text: str) -> Iterator[str]:
    """Yield the names that `spans` listed."""
    for part in text.split(","):
        part = part.strip()
        if match := _SPAN.fullmatch(part):
            yield from (f"_{k}" for k in range(int(match[1]), int(match[2]) + 1))
        else:
            yield part
