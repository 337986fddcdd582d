"""Every error that coconet raises on purpose.

CoconetError
  ProgramError          the program is wrong; names the user's line
    ShapeError          shapes do not fit
    DtypeError          dtypes differ, or the operation has no meaning for them
    LayoutError         layouts do not combine
    GroupError          values of different groups meet, or a group is bound wrongly
  ScheduleError         the step is not legal here; a tuner skips it
  UnsupportedError      legal, but this backend cannot; names one that can
  CompileError          a toolchain failed
  RunError              a running program failed
    RanksDisagree       program, shape, dtype or scalar differ between ranks
    PeerFailed          a rank died, raised or left
    CollectiveTimeout   a rank did not arrive in time
    StatePoisoned       an earlier fault left updated tensors undefined
    ConcurrentUse       two threads run programs of one group at once
    UsedAfterFork       a forked child used its parent's world
    RendezvousError     the ranks of a run did not find each other
  ResourceError         the machine lacks something
    SharedMemoryFull    no room for symmetric memory
    NoCompiler          no C compiler was found
  CacheError            a compile cache entry is not ours, not private or corrupt
  VerificationError     a result differs from the reference
  InternalError         an invariant of coconet broke: a bug, please report it
"""

from __future__ import annotations

__all__ = [
    "CacheError",
    "CoconetError",
    "CollectiveTimeout",
    "CompileError",
    "ConcurrentUse",
    "DtypeError",
    "GroupError",
    "InternalError",
    "LayoutError",
    "NoCompiler",
    "PeerFailed",
    "ProgramError",
    "RanksDisagree",
    "RendezvousError",
    "ResourceError",
    "RunError",
    "ScheduleError",
    "ShapeError",
    "SharedMemoryFull",
    "StatePoisoned",
    "UnsupportedError",
    "UsedAfterFork",
    "VerificationError",
]


class CoconetError(Exception):
    """Base of the tree: one line of what, then got, need and try.

    Attributes
      what  one line that says what is wrong
      got   what was found
      need  what would be right
      fix   one concrete act, or ""
      at    the user's file:line, or ""
    """

    def __init__(
        self,
        what: str,
        *,
        got: object = "",
        need: object = "",
        fix: str = "",
        at: str = "",
    ) -> None:
        """Keep the fields; the text is made from them."""
        self.what = what
        self.got = got
        self.need = need
        self.fix = fix
        self.at = at
        super().__init__(what)

    def __str__(self) -> str:
        """Return the message, fields that are empty left out."""
        lines = [self.what + (f"  ({self.at})" if self.at else "")]
        for label, field in (("got", self.got), ("need", self.need), ("try", self.fix)):
            if str(field):
                lines.append(f"  {label + ':':<5} {field}")
        return "\n".join(lines)


class ProgramError(CoconetError):
    """The program is wrong; `at` is the user's line."""


class ShapeError(ProgramError):
    """Shapes do not fit together."""


class DtypeError(ProgramError):
    """Dtypes differ, or the operation has no meaning for this dtype."""


class LayoutError(ProgramError):
    """Layouts do not combine in this operation."""


class GroupError(ProgramError):
    """Values of different groups meet, or a group is bound to the wrong size."""


class ScheduleError(CoconetError):
    """A transformation is not legal at this point of this program.

    Attributes
      at       the user's line of the value that is in the way
      step_at  the user's line that asked for the step, or ""
    """

    step_at: str = ""

    def __str__(self) -> str:
        """Return the message, with the line of the step."""
        what, *others = super().__str__().split("\n")
        step = [f"  step: {self.step_at}"] if self.step_at else []
        return "\n".join([what, *step, *others])


class UnsupportedError(CoconetError):
    """Legal, but this backend cannot do it; the message names one that can."""


class CompileError(CoconetError):
    """A toolchain failed; the message holds the command and its stderr."""


class RunError(CoconetError):
    """A running program failed.

    Attributes
      ranks  the ranks at fault, where known
    """

    def __init__(
        self,
        what: str,
        *,
        got: object = "",
        need: object = "",
        fix: str = "",
        at: str = "",
        ranks: tuple[int, ...] = (),
    ) -> None:
        """Keep the fields and the ranks at fault."""
        super().__init__(what, got=got, need=need, fix=fix, at=at)
        self.ranks = ranks


class RanksDisagree(RunError):
    """Ranks called with different programs, shapes, dtypes or scalars."""


class PeerFailed(RunError):
    """A rank died, raised, or left while others wait for it."""


class CollectiveTimeout(RunError):
    """A rank did not arrive before the deadline."""


class StatePoisoned(RunError):
    """A fault in the middle of an earlier call left updated tensors undefined."""


class ConcurrentUse(RunError):
    """Two threads of one process run programs of one group at once."""


class UsedAfterFork(RunError):
    """A forked child used the world of its parent."""


class RendezvousError(RunError):
    """The ranks of a run did not find each other, or disagree about the run."""


class ResourceError(CoconetError):
    """The machine lacks something; the message says what, how much, and the fix."""


class SharedMemoryFull(ResourceError):
    """There is no room for symmetric memory."""


class NoCompiler(ResourceError):
    """No C compiler was found."""


class CacheError(CoconetError):
    """A compile cache entry is not ours, not private, or corrupt."""


class VerificationError(CoconetError):
    """A result differs from the reference; says where and by how much."""


class InternalError(CoconetError):
    """An invariant of coconet broke: a bug in coconet, please report it."""
