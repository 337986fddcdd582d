"""What ops see while one kernel is lowered."""

from __future__ import annotations

from typing import Protocol

from coconet.ir import Cut, DType, Shape, Sliced, Value
from coconet.lower.kernels import Kernel
from coconet.plan import (
    OWN,
    Buffer,
    Constant,
    Index,
    PlanBuilder,
    Register,
    TileBuilder,
    View,
)
from coconet.schedule.legality import loop_shape

__all__ = ["KernelEmitter", "Lowering", "cut_of", "index_of"]


class Lowering(Protocol):
    """What an emitter needs of the driver."""

    plan: PlanBuilder

    def const(self, value: Value) -> int:
        """Return the number of the plan's expression for a scalar."""
        ...

    def source(self, value: Value, source: Value) -> Buffer:
        """Return where a value finds one of its inputs."""
        ...


class KernelEmitter:
    """Gives ops their operands: constants, registers, or loads."""

    def __init__(self, lowering: Lowering, kernel: Kernel, tile: TileBuilder) -> None:
        """Start with no value computed; `value` says whose operands are asked for."""
        self.lowering = lowering
        self.kernel = kernel
        self.tile = tile
        self.registers: dict[Value, Register | Constant] = {}
        self.value = kernel.members[0]
        self.ranks = lowering.plan.ranks
        self.apply = tile.apply
        self.literal = tile.literal

    def operand(self, number: int, dtype: DType) -> Register | Constant:
        """Return an input's element: a constant, a register, or a load."""
        source = self.value.inputs[number]
        if source.type.is_scalar:
            return Constant(self.lowering.const(source), dtype)
        if source in self.registers:
            return self.registers[source]
        return self.tile.load(self._buffer(source), OWN, self._index(source))

    def same_place(self, number: int) -> Register:
        """Return an input's element of the same row-major number."""
        source = self.value.inputs[number]
        index = index_of(cut_of(source))
        return self.tile.load(self._buffer(source), OWN, index)

    def view(
        self, number: int, axes: tuple[int | None, ...], start: tuple[int, ...]
    ) -> Register:
        """Return an input's element where its dims lie otherwise."""
        source = self.value.inputs[number]
        view = View(axes, start, source.type.shape, cut_of(source))
        return self.tile.load(self._buffer(source), OWN, view)

    def position(self) -> Register:
        """Return the number of the value's element in its global shape."""
        return self.tile.position(self._place(self.value, None))

    def numel(self, shape: Shape, dtype: DType) -> Constant:
        """Return the number of a shape's elements."""
        return Constant(self.lowering.plan.numel(shape), dtype)

    def operand_of_each_rank(self, number: int) -> tuple[Register, ...]:
        """Return loads of an input's element from every rank, in rank order."""
        buffer = self._buffer(self.value.inputs[number])
        if self.ranks == 1:
            return (self.tile.load(buffer, OWN, Index.GLOBAL),)
        return tuple(
            self.tile.load(buffer, peer, Index.GLOBAL) for peer in range(self.ranks)
        )

    def _buffer(self, source: Value) -> Buffer:
        return self.lowering.source(self.value, source)

    def _index(self, source: Value) -> Index | View:
        return self._place(source, cut_of(source))

    def _place(self, source: Value, cut: Cut | None) -> Index | View:
        """Return which element of a value, cut so, belongs to that of the loop."""
        order = self.kernel.order
        shape, own = loop_shape(self.value), source.type.shape
        if own == shape and order == tuple(range(len(shape))):
            return index_of(cut)
        missing = len(shape) - len(own)
        axes = tuple(
            dim - missing
            if dim >= missing and own[dim - missing] == shape[dim]
            else None
            for dim in order
        )
        return View(axes, (0,) * len(own), own, cut)


def cut_of(value: Value) -> Cut | None:
    """Return how a value is cut in memory."""
    layout = value.type.layout
    return layout.cut if isinstance(layout, Sliced) else None


def index_of(cut: Cut | None) -> Index:
    """Return how a tile over what a buffer holds finds its elements in it."""
    return Index.GLOBAL if cut is None else Index.PIECE
