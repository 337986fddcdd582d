"""The driver: kernels to tiles, values to buffers, hazards to barriers."""

from __future__ import annotations

from collections.abc import Sequence

from coconet.errors import GroupError, UnsupportedError
from coconet.ir import (
    FLAT,
    Program,
    Rooted,
    Shape,
    Value,
    i64,
    needed_by,
    said,
)
from coconet.lower.emitter import KernelEmitter, cut_of, index_of
from coconet.lower.hazards import NONE, Accesses, needs_barrier
from coconet.lower.kernels import Kernel, kernels_of, saved_inputs
from coconet.lower.memory import shared_temporaries
from coconet.ops import (
    AllGather,
    Concat,
    Elementwise,
    Input,
    Literal,
    Op,
    Reduce,
    Update,
)
from coconet.ops.elementwise import wide_dtype
from coconet.plan import (
    EVERY,
    OWN,
    Buffer,
    Constant,
    Fold,
    Peer,
    Plan,
    PlanBuilder,
    Register,
    Role,
    TileBuilder,
    View,
    stage,
)
from coconet.plan import Reduce as ReduceStep
from coconet.plan.tree import MAX_SUBTREES

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
                f"{said(value)!r} lives on one rank, and plans know no such value",
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
        self.loops: list[str] = []
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
            self._barrier(f"the end of program {program.name!r}{self.plan.where}")
        plan = self.plan.finish(
            updated=frozenset(u.inputs[0].name for u in program.effects),
            scalars=tuple((v.name, v.type.dtype) for v in program.scalars),
            dims=program.dims,
        )
        return stage(plan, self.loops)

    def _declare(self, value: Value, name: str, role: Role) -> Buffer:
        cut = cut_of(value)
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
        cut = cut_of(target)
        copy = self._declare(target, f"{target.name}.old", Role.SCRATCH)
        tile = self.plan.tile(f"old {target.name}", target.type.shape, cut)
        index = index_of(cut)
        tile.store(copy, OWN, index, tile.load(self.buffers[target], OWN, index))
        self.copies[target] = copy
        self._close(tile, f"copy of {target.name}")

    def _lower_kernel(self, kernel: Kernel) -> None:
        what = f"{kernel.name} of program {self.program.name!r}"
        at = next((m.at for m in reversed(kernel.members) if m.at), "")
        what += f" ({at})" if at else ""
        if isinstance(kernel.members[0].op, Concat):
            self._lower_concat(kernel.members[0], what)
            return
        shape = tuple(kernel.shape[dim] for dim in kernel.order)
        is_dim = isinstance(kernel.cut, int)
        cut = kernel.order.index(kernel.cut) if is_dim else kernel.cut
        tile = self.plan.tile(kernel.name, shape, cut)
        emitter = KernelEmitter(self, kernel, tile)
        for value in kernel.members:
            assert isinstance(value.op, Op)
            emitter.value = value
            types = tuple(source.type for source in value.inputs)
            emitter.registers[value] = value.op.lower(emitter, *types)
        folds: list[tuple[Value, Buffer]] = []
        for value in kernel.members:
            if isinstance(value.op, Reduce):
                folds.append((value, self._reduce(value, emitter)))
            elif value in self.buffers:
                self._store(kernel, tile, value, emitter.registers[value])
        self._close(tile, what)
        for value, fold in folds:
            self._finish(kernel, value, fold, what)

    def _reduce(self, value: Value, emitter: KernelEmitter) -> Buffer:
        """Fold the rows of a tile; return where the folds are."""
        op, (source,) = value.op, value.inputs
        assert isinstance(op, Reduce)
        is_partial = cut_of(source) == FLAT
        name, dtype = f"{value.name}.fold", wide_dtype(value.type.dtype)
        shape: Shape = (MAX_SUBTREES,) if is_partial else value.type.shape
        rank = len(source.type.shape)
        folded = op.folded(rank)
        is_natural = emitter.kernel.order == tuple(range(rank))
        inner = rank - 1 - folded[-1] if folded and is_natural else 0
        fold = self.plan.buffer(name, dtype, shape, cut_of(value), Role.SCRATCH)
        emitter.tile.reduce(
            ReduceStep(
                fold.name,
                op.meaning.primitive,
                emitter.registers[value],
                len(folded),
                is_partial,
                inner,
            )
        )
        return fold

    def _finish(self, kernel: Kernel, value: Value, fold: Buffer, what: str) -> None:
        """Combine the ranks' folds if they are parts of one, and store the result."""
        op, (source,) = value.op, value.inputs
        assert isinstance(op, Reduce)
        primitive, cut = op.meaning.primitive, cut_of(source)
        is_exchanged = isinstance(cut, int) and cut_of(value) is None
        if cut == FLAT:
            name = f"{value.name}.total"
            total = self.plan.buffer(name, fold.dtype, (), None, Role.SCRATCH)
            step = Fold(name, fold.name, primitive, source.type.shape)
            self._separate(Accesses.of(step), what)
            self.plan.fold(step)
            fold = total
        tile = self.plan.tile(value.name, value.type.shape, cut_of(value))
        index = index_of(cut_of(value))
        is_exchanged &= self.plan.ranks > 1
        peers: Sequence[Peer] = range(self.plan.ranks) if is_exchanged else (OWN,)
        total, *parts = (tile.load(fold, peer, index) for peer in peers)
        for part in parts:
            total = tile.apply(primitive, total, part)
        emitter = KernelEmitter(self, kernel, tile)
        result = op.finish(emitter, total, source.type)
        tile.store(self.buffers[value], OWN, index, result)
        self._close(tile, what)

    def _lower_concat(self, value: Value, what: str) -> None:
        """Copy each input to its place in the result."""
        assert isinstance(value.op, Concat)
        types = tuple(source.type for source in value.inputs)
        target, rank = self.buffers[value], len(value.type.shape)
        for source, first in zip(value.inputs, value.op.starts(*types), strict=True):
            cut = cut_of(source)
            tile = self.plan.tile(value.name, source.type.shape, cut)
            element = tile.load(self.source(value, source), OWN, index_of(cut))
            start = tuple(first if d == value.op.dim else 0 for d in range(rank))
            view = View(tuple(range(rank)), start, target.shape, target.cut)
            tile.store(target, OWN, view, element)
            self._close(tile, what)

    def source(self, value: Value, source: Value) -> Buffer:
        """Return where a value finds a source: an input's copy, once overwritten."""
        if value in self.saved.get(source, ()):
            return self.copies[source]
        return self.buffers[source]

    def _store(
        self,
        kernel: Kernel,
        tile: TileBuilder,
        value: Value,
        register: Register | Constant,
    ) -> None:
        source = value.inputs[1] if isinstance(value.op, Update) else value
        gathered = source in kernel.members and kernel.spreads(source)
        index = index_of(self.buffers[value].cut)
        peer: Peer = EVERY if gathered and self.plan.ranks > 1 else OWN
        tile.store(self.buffers[value], peer, index, register)

    def _close(self, tile: TileBuilder, what: str) -> None:
        """Add a tile, after a barrier if it must not overlap with what came before."""
        self._separate(Accesses.of(tile.build()), what)
        tile.close()
        self.loops.append(what)

    def _separate(self, accesses: Accesses, what: str) -> None:
        """Put a barrier before these accesses if they need one."""
        if needs_barrier(self.since_barrier, accesses):
            self._barrier(what)
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
