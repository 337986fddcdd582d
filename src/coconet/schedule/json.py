"""Schedules as strict JSON: data in a closed vocabulary, checked again when loaded.

{"program": "sgd", "steps": [{"verb": "split", "target": "avg", "by": "FLAT"}]}
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from coconet.errors import ScheduleError
from coconet.ir import FLAT, ROWS, Cut, Program
from coconet.schedule.schedule import Schedule
from coconet.schedule.table import TRANSFORMS
from coconet.schedule.transform import Transform

__all__ = ["MAX_BYTES", "decoded", "schedule_from_json", "schedule_to_json"]

T = TypeVar("T")

MAX_BYTES = 1 << 20
"""A schedule of some thousand steps, and all that a tuner says about it."""

_ROWS = re.compile(r"ROWS\((?:k=)?(0|[1-9][0-9]*)\)")


def schedule_to_json(schedule: Schedule) -> str:
    """Return a schedule's steps as JSON."""
    steps = [_record(step) for step in schedule.steps]
    document = {"program": schedule.program.name, "steps": steps}
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def schedule_from_json(program: Program, text: str | bytes) -> Schedule:
    """Apply the steps of a JSON text to a program, each checked like a user's.

    Raises ScheduleError: the text is too long or not such JSON, has an unknown verb or
    field, is for a program of another name, or a step is not legal here.
    """
    try:
        document = decoded(text, _document())
        steps = [_step(record) for record in document.steps]
    except (msgspec.DecodeError, ValueError) as error:
        raise ScheduleError(
            "this is not a schedule in JSON",
            got=error,
            need='{"program": "..", "steps": [{"verb": "..", ..}]}',
        ) from None
    if document.program != program.name:
        raise ScheduleError(
            "the schedule is for another program",
            got=document.program,
            need=program.name,
        )
    return Schedule.replay(program, steps)


def decoded(text: str | bytes, kind: type[T]) -> T:
    """Return what strict JSON says, as this type; what is long is not even parsed.

    Raises ValueError, msgspec.DecodeError.
    """
    data = text.encode() if isinstance(text, str) else text
    if len(data) > MAX_BYTES:
        raise ValueError(f"too long: {len(data)} bytes, at most {MAX_BYTES}")
    return msgspec.json.decode(data, type=kind)


@cache
def _document() -> Any:
    """Return the type of a document: every transformation's fields, and no others."""
    kinds = tuple(_struct(transform) for transform in TRANSFORMS)
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    parts: list[Any] = [("program", str), ("steps", list[union])]
    return msgspec.defstruct("Document", parts, forbid_unknown_fields=True)


def _struct(transform: type[Transform]) -> Any:
    hints = get_type_hints(transform)
    parts: list[Any] = []
    for field in fields(cast("Any", transform)):
        kind: Any = int | str if hints[field.name] == Cut else hints[field.name]
        has_default = field.default is not MISSING
        parts.append((field.name, kind, "FLAT") if has_default else (field.name, kind))
    return msgspec.defstruct(
        transform.__name__,
        parts,
        tag_field="verb",
        tag=transform.name,
        forbid_unknown_fields=True,
    )


def _record(step: Transform) -> dict[str, Any]:
    names = [field.name for field in fields(cast("Any", step))]
    values = {name: getattr(step, name) for name in names}
    return {"verb": step.name} | {n: _plain(value) for n, value in values.items()}


def _plain(value: Any) -> Any:
    return repr(value) if value is FLAT or isinstance(value, ROWS) else value


def _step(record: Any) -> Transform:
    transform = next(t for t in TRANSFORMS if t.__name__ == type(record).__name__)
    hints = get_type_hints(transform)
    given = msgspec.structs.asdict(record)
    return transform(**{n: _cut(v) if hints[n] == Cut else v for n, v in given.items()})


def _cut(value: int | str) -> Cut:
    """Return the cut that a JSON value names; raises ValueError if it names none."""
    if isinstance(value, int):
        return value
    if value == "FLAT":
        return FLAT
    rows = _ROWS.fullmatch(value)
    if rows is None:
        raise ValueError(f"a cut is a dim, FLAT or ROWS(k), got {value!r}")
    return ROWS(int(rows[1]))
