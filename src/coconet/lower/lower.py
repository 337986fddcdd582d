"""The driver: kernels to tiles, values to buffers, hazards to barriers."""

from __future__ import annotations

from coconet.errors import GroupError, UnsupportedError
from coconet.ir import Cut, DType, Program, Rooted, Sliced, Value, i64, needed_by
from coconet.lower.hazards import NONE, Accesses, needs_barrier
from coconet.lower.kernels import Kernel, kernels_of, saved_inputs
from coconet.lower.memory import shared_temporaries
from coconet.ops import AllGather, Elementwise, Input, Literal, Op, Update
from coconet.plan import (
    EVERY,
    OWN,
    Buffer,
    Constant,
    Index,
    Peer,
    Plan,
    PlanBuilder,
    Register,
    Role,
    RowMap,
    TileBuilder,
)

__all__ = ["lower"]


def lower(program: Program, ranks: int) -> Plan:
    """Return the plan of a program for this many ranks.

    Raises GroupError if the program lives on several groups, or on one of another size;
    UnsupportedError if a value is Rooted.
    """
    _refuse_rooted(program)
    return _Lowering(program, _group_name(program, ranks), ranks).run()


def _refuse_rooted(program: Program) -> None:
    for value in (*program.inputs, *program.values):
        if isinstance(value.type.layout, Rooted):
            raise UnsupportedError(
                f"{value.name!r} lives on one rank, and plans know no such value",
                got=value.type,
                need="Replicated, Sliced or Local",
                fix="the interpreter runs it",
                at=value.at,
            )


def _group_name(program: Program, ranks: int) -> str:
    groups = program.groups
    if len(groups) != 1:
        raise GroupError(
            f"program {program.name!r} lives on {len(groups)} groups",
            got=", ".join(map(str, groups)),
            need="one group per program",
        )
    (group,) = groups
    if group.size not in (None, ranks):
        raise GroupError(
            f"group {group.name!r} of program {program.name!r} has another size",
            got=f"{ranks} ranks",
            need=f"{group.size} ranks",
        )
    return group.name


class _Lowering:
    def __init__(self, program: Program, group: str, ranks: int) -> None:
        self.program = program
        at = next((value.at for value in program.values if value.at), "")
        self.plan = PlanBuilder(program.name, group, ranks, at)
        self.scalars = {value: i for i, value in enumerate(program.scalars)}
        self.consts: dict[Value, int] = {}
        self.buffers: dict[Value, Buffer] = {}
        self.kernel_of: dict[Value, Kernel] = {}
        self.kernels = kernels_of(program)
        self.saved = saved_inputs(program, self.kernels)
        self.copies: dict[Value, Buffer] = {}
        self.since_barrier = NONE
        self.unfenced = False

    def run(self) -> Plan:
        program = self.program
        self.kernel_of = {m: kernel for kernel in self.kernels for m in kernel.members}
        for value in program.tensors:
            self.buffers[value] = self._declare(value, value.name, Role.ARGUMENT)
        for value in program.outputs:
            self.buffers[value] = self._declare(value, value.name, Role.RESULT)
        for update in program.effects:
            self.buffers[update] = self.buffers[update.inputs[0]]
        self._declare_temporaries()
        self.plan.arrive()
        for target in self.saved:
            self._save(target)
        for kernel in self.kernels:
            self._lower_kernel(kernel)
        if self.since_barrier.touches_peers:
            self._barrier(f"the end of program {program.name!r}")
        return self.plan.finish(
            updated=frozenset(u.inputs[0].name for u in program.effects),
            scalars=tuple((v.name, v.type.dtype) for v in program.scalars),
            dims=program.dims,
        )

    def _declare(self, value: Value, name: str, role: Role) -> Buffer:
        cut = _cut_of(value)
        return self.plan.buffer(name, value.type.dtype, value.type.shape, cut, role)

    def _declare_temporaries(self) -> None:
        """Give the values between kernels memory, shared where lifetimes allow."""
        stored = [
            value
            for value in self.kernel_of
            if value not in self.buffers and self._is_stored(value)
        ]
        shared = shared_temporaries(self.program, self.kernels, stored)
        made: dict[int, Buffer] = {}
        for value in stored:
            number = shared.get(value)
            if number is None:
                self.buffers[value] = self._declare(value, value.name, Role.SCRATCH)
            else:
                if number not in made:
                    name = f"temp.{number}"
                    made[number] = self._declare(value, name, Role.SCRATCH)
                self.buffers[value] = made[number]

    def _is_stored(self, value: Value) -> bool:
        """Whether a value outlives its kernel's registers."""
        kernel = self.kernel_of[value]
        users = self.program.users(value)
        if isinstance(value.op, AllGather) and len(kernel.members) > 1:
            # inside its kernel a gather is what the update stores on every rank
            return any(user not in kernel.members for user in users)
        return not users or any(user not in kernel.members for user in users)

    def _save(self, target: Value) -> None:
        """Copy an input that is read after its update."""
        cut = _cut_of(target)
        copy = self._declare(target, f"{target.name}.old", Role.SCRATCH)
        tile = self.plan.tile(f"old {target.name}", target.type.shape, cut)
        index = Index.GLOBAL if cut is None else Index.PIECE
        tile.store(copy, OWN, index, tile.load(self.buffers[target], OWN, index))
        self.copies[target] = copy
        self._close(tile, f"copy of {target.name}")

    def _lower_kernel(self, kernel: Kernel) -> None:
        tile = self.plan.tile(kernel.name, kernel.shape, kernel.cut)
        emitter = _Emitter(self, kernel, tile)
        for value in kernel.members:
            assert isinstance(value.op, Op)
            emitter.value = value
            types = tuple(source.type for source in value.inputs)
            emitter.registers[value] = value.op.lower(emitter, *types)
        for value in kernel.members:
            if value in self.buffers:
                self._store(kernel, tile, value, emitter.registers[value])
        what = f"{kernel.name} of program {self.program.name!r}"
        at = next((m.at for m in reversed(kernel.members) if m.at), "")
        self._close(tile, what + (f" ({at})" if at else ""))

    def _store(
        self,
        kernel: Kernel,
        tile: TileBuilder,
        value: Value,
        register: Register | Constant,
    ) -> None:
        source = value.inputs[1] if isinstance(value.op, Update) else value
        gathered = source in kernel.members and kernel.spreads(source)
        is_piece = self.buffers[value].cut is not None
        index = Index.PIECE if is_piece else Index.GLOBAL
        peer: Peer = EVERY if gathered and self.plan.ranks > 1 else OWN
        tile.store(self.buffers[value], peer, index, register)

    def _close(self, tile: TileBuilder, what: str) -> None:
        """Add a tile, after a barrier if it must not overlap with what came before."""
        accesses = Accesses.of(tile.build())
        if needs_barrier(self.since_barrier, accesses):
            self._barrier(what)
        tile.close()
        self.since_barrier |= accesses
        self.unfenced |= bool(accesses.peer_writes)

    def _barrier(self, what: str) -> None:
        if self.unfenced:
            self.plan.fence_stores()
            self.unfenced = False
        self.plan.barrier(what)
        self.since_barrier = NONE

    def const(self, value: Value) -> int:
        """Return the number of the plan's expression for a scalar."""
        if value not in self.consts:
            for source in needed_by([value]):
                if source not in self.consts:
                    self.consts[source] = self._make_const(source)
        return self.consts[value]

    def _make_const(self, value: Value) -> int:
        is_int = value.type.dtype is i64
        op = value.op
        if isinstance(op, Input):
            return self.plan.argument_scalar(self.scalars[value], is_int=is_int)
        if isinstance(op, Literal):
            return self.plan.literal(op.value)
        assert isinstance(op, Elementwise)  # nothing else makes scalars
        args = tuple(self.consts[source] for source in value.inputs)
        return self.plan.scalar(op.scalar_primitive, args, is_int=is_int)


class _Emitter:
    """What ops see while one kernel is lowered."""

    def __init__(self, lowering: _Lowering, kernel: Kernel, tile: TileBuilder) -> None:
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

    def operand_of_each_rank(self, number: int) -> tuple[Register, ...]:
        """Return loads of an input's element from every rank, in rank order."""
        buffer = self._buffer(self.value.inputs[number])
        if self.ranks == 1:
            return (self.tile.load(buffer, OWN, Index.GLOBAL),)
        return tuple(
            self.tile.load(buffer, peer, Index.GLOBAL) for peer in range(self.ranks)
        )

    def _buffer(self, source: Value) -> Buffer:
        """Return where this value finds a source: an input's copy, once overwritten."""
        if self.value in self.lowering.saved.get(source, ()):
            return self.lowering.copies[source]
        return self.lowering.buffers[source]

    def _index(self, source: Value) -> Index | RowMap:
        cut = _cut_of(source)
        shape = self.value.type.shape
        if source.type.shape == shape:
            return Index.GLOBAL if cut is None else Index.PIECE
        missing = len(shape) - len(source.type.shape)
        follows = tuple(
            dim >= missing and source.type.shape[dim - missing] == extent
            for dim, extent in enumerate(shape)
        )
        return RowMap(follows, source.type.shape, cut)


def _cut_of(value: Value) -> Cut | None:
    """Return how a value is cut in memory."""
    layout = value.type.layout
    return layout.cut if isinstance(layout, Sliced) else None
