"""The only way to make a plan; it checks as it builds."""

from __future__ import annotations

from dataclasses import replace

from coconet.errors import InternalError, UnsupportedError
from coconet.ir import Cut, Dim, DType, Shape, bool_, i64
from coconet.plan.buffer import Buffer, Role, Space
from coconet.plan.instr import (
    EVERY,
    OWN,
    Apply,
    Arrive,
    Barrier,
    Constant,
    FenceStores,
    Fold,
    Index,
    Instruction,
    Load,
    Peer,
    Position,
    Reduce,
    Register,
    Store,
    Tile,
    View,
)
from coconet.plan.plan import Plan
from coconet.plan.scalar import NUMBERS, PRIMITIVES, Number, ScalarExpr

__all__ = ["PlanBuilder", "TileBuilder"]


class PlanBuilder:
    """Collects buffers, scalar expressions and instructions."""

    def __init__(self, name: str, group: str, ranks: int, at: str = "") -> None:
        """Start an empty plan for this many ranks; `at` is the program's line."""
        self.name = name
        self.group = group
        self.ranks = ranks
        self._buffers: dict[str, Buffer] = {}
        self._consts: dict[tuple[ScalarExpr, str], int] = {}
        self._body: list[Instruction] = []
        self.where = f" ({at})" if at else ""
        self._waits: list[str] = [f"arrival of program {name!r}{self.where}"]

    def buffer(
        self, name: str, dtype: DType, shape: Shape, cut: Cut | None, role: Role
    ) -> Buffer:
        """Declare a buffer, private until a tile addresses a peer's copy of it."""
        if name in self._buffers:
            raise InternalError(f"buffer {name!r} is declared twice")
        made = Buffer(name, dtype, shape, cut, Space.PRIVATE, role)
        self._buffers[name] = made
        return made

    def argument_scalar(self, position: int, *, is_int: bool) -> int:
        """Return the number of the expression that is a scalar argument."""
        return self._const(ScalarExpr("argument", position, (), is_int))

    def literal(self, value: Number) -> int:
        """Return the number of the expression that is a literal."""
        return self._const(ScalarExpr("literal", value, (), isinstance(value, int)))

    def scalar(self, primitive: str, args: tuple[int, ...], *, is_int: bool) -> int:
        """Return the number of a primitive applied to earlier expressions.

        Raises UnsupportedError if the primitive has no meaning for scalars.
        """
        if primitive not in NUMBERS:
            raise UnsupportedError(f"{primitive} of scalars cannot be evaluated")
        return self._const(ScalarExpr(primitive, 0, args, is_int))

    def numel(self, shape: Shape) -> int:
        """Return the number of the expression that counts a shape's elements."""
        return self._const(ScalarExpr("numel", 0, (), True, shape))

    def _const(self, expr: ScalarExpr) -> int:
        # 0.0 == -0.0, but they are different literals
        return self._consts.setdefault((expr, repr(expr.value)), len(self._consts))

    def arrive(self) -> None:
        """Begin: every rank is here, and all agree."""
        self._body.append(Arrive())

    def fence_stores(self) -> None:
        """Order the stores to peers before what follows."""
        self._body.append(FenceStores())

    def barrier(self, what: str) -> None:
        """Wait for every rank; `what` says for a message what is waited for."""
        self._waits.append(what)
        self._body.append(Barrier(len(self._waits) - 1))

    def fold(self, fold: Fold) -> None:
        """Fold the subtrees that every rank stored; peers read them."""
        partials = self._buffers[fold.partials]
        self._buffers[fold.partials] = replace(partials, space=Space.SYMMETRIC)
        self._body.append(fold)

    def tile(self, name: str, shape: Shape, cut: Cut | None) -> TileBuilder:
        """Open a loop; nothing is added until its `close`."""
        return TileBuilder(self, name, shape, cut)

    def close_tile(self, tile: Tile) -> None:
        """Add a finished loop; buffers that it addresses on peers become symmetric."""
        for access in tile.body:
            if isinstance(access, Load | Store) and access.peer is not OWN:
                buffer = self._buffers[access.buffer]
                shared = replace(buffer, space=Space.SYMMETRIC)
                self._buffers[buffer.name] = shared
        self._body.append(tile)

    def finish(
        self,
        *,
        updated: frozenset[str],
        scalars: tuple[tuple[str, DType], ...],
        dims: tuple[Dim, ...],
    ) -> Plan:
        """Return the plan; scalars in the caller's order."""
        order = list(Role)
        by_role = sorted(self._buffers.values(), key=lambda b: order.index(b.role))
        return Plan(
            name=self.name,
            group=self.group,
            ranks=self.ranks,
            buffers=tuple(by_role),
            updated=updated,
            scalars=tuple(name for name, _ in scalars),
            scalar_kinds=tuple(dtype.name for _, dtype in scalars),
            consts=tuple(expr for expr, _ in self._consts),
            dims=dims,
            body=tuple(self._body),
            waits=tuple(self._waits),
        )


class TileBuilder:
    """Collects one tile's body; equal loads and applications are made once."""

    def __init__(
        self, plan: PlanBuilder, name: str, shape: Shape, cut: Cut | None
    ) -> None:
        """Start an empty loop over this shape, or over each rank's piece of it."""
        self.plan = plan
        self.name = name
        self.shape = shape
        self.cut = cut
        self._body: list[Load | Position | Apply] = []
        self._stores: list[Store | Reduce] = []
        self._known: dict[tuple[object, ...], Register] = {}

    def load(self, buffer: Buffer, peer: Peer, index: Index | View) -> Register:
        """Read one element; raises InternalError for a piece of another cut."""
        if peer is EVERY:
            raise InternalError("a load reads from one rank")
        if index is Index.PIECE and buffer.cut != self.cut:
            raise InternalError(f"{buffer.name} is not cut as tile {self.name}")
        key = (buffer.name, peer, index)
        if key not in self._known:
            register = self._register(buffer.dtype)
            self._body.append(Load(register, buffer.name, peer, index))
            self._known[key] = register
        return self._known[key]

    def position(self, index: Index | View) -> Register:
        """Take an element's number; raises InternalError if it is not a global one."""
        if index is Index.PIECE or (isinstance(index, View) and index.cut is not None):
            raise InternalError("a position is counted in a whole tensor")
        key = ("position", index)
        if key not in self._known:
            register = self._register(i64)
            self._body.append(Position(register, index))
            self._known[key] = register
        return self._known[key]

    def apply(
        self, primitive: str, *args: Register | Constant, dtype: DType | None = None
    ) -> Register:
        """Apply a primitive; `dtype` is the result's, where the arguments do not say.

        Raises InternalError for a wrong number of arguments.
        """
        meaning = PRIMITIVES[primitive]
        if len(args) != meaning.arity:
            raise InternalError(f"{primitive} takes {meaning.arity} arguments")
        result = bool_ if meaning.result == "bool" else dtype or args[-1].dtype
        key = (primitive, args, result)
        if key not in self._known:
            register = self._register(result)
            self._body.append(Apply(register, primitive, args))
            self._known[key] = register
        return self._known[key]

    def literal(self, value: Number, dtype: DType) -> Constant:
        """Return a literal as an element of this dtype."""
        return Constant(self.plan.literal(value), dtype)

    def store(
        self,
        buffer: Buffer,
        peer: Peer,
        index: Index | View,
        source: Register | Constant,
    ) -> None:
        """Write one element, after everything that the tile reads."""
        self._stores.append(Store(buffer.name, peer, index, source))

    def reduce(self, step: Reduce) -> None:
        """Fold rows of the tile, after everything that it reads."""
        self._stores.append(step)

    def build(self) -> Tile:
        """Return the loop as it is now; stores come last."""
        return Tile(self.name, self.shape, self.cut, (*self._body, *self._stores))

    def close(self) -> None:
        """Add the loop to the plan."""
        self.plan.close_tile(self.build())

    def _register(self, dtype: DType) -> Register:
        return Register(len(self._known), dtype)
