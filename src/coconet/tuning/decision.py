"""What a tuning decides, and its strict JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec

from coconet.backends.c.words import Knobs
from coconet.errors import CacheError, ScheduleError
from coconet.ir import Program
from coconet.schedule import Schedule
from coconet.schedule.json import decoded
from coconet.tuning.report import Report
from coconet.tuning.request import Request

__all__ = ["Decision"]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON of a decision; `schedule` is a schedule's own JSON."""

    schedule: msgspec.Raw
    knobs: dict[str, int]
    report: Report


@dataclass(frozen=True, slots=True)
class Decision:
    """The winner of a tuning, and how it won."""

    schedule: Schedule
    knobs: Knobs
    report: Report

    def was_hurried(self, request: Request) -> bool:
        """Whether its time was up early, and this request has more."""
        return self.report.was_late and self.report.wall_s < request.time_box_s

    def to_json(self) -> str:
        """Return it as JSON, to be kept beside the program."""
        steps = msgspec.Raw(self.schedule.to_json().encode())
        document = _Document(steps, dataclasses.asdict(self.knobs), self.report)
        return msgspec.json.format(msgspec.json.encode(document)).decode()

    @staticmethod
    def from_json(program: Program, text: str | bytes) -> Decision:
        """Apply what `to_json` gave to its program; each step is checked again.

        Raises CacheError if the text is too long, not such JSON, or does not fit the
        program.
        """
        try:
            document = decoded(text, _Document)
            schedule = Schedule.from_json(program, bytes(document.schedule))
            knobs = Knobs(**document.knobs)
        except (msgspec.DecodeError, ScheduleError, TypeError, ValueError) as error:
            raise CacheError(
                f"this is not a decision about {program.name!r}",
                got=error,
                need="what Decision.to_json returned",
            ) from None
        if not document.report.is_whole:
            raise CacheError("a decision without times of its winner and its baseline")
        return Decision(schedule, knobs, document.report)
