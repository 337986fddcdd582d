"""Random programs, legal schedules of them, arguments, and the bits that must come out.

A case is drawn from one seed, the same on every rank and in every run.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

import coconet as cc
from coconet.errors import ProgramError, ScheduleError
from coconet.interp import first_difference, run_plan, run_program
from coconet.interp.inputs import random_whole
from coconet.ir import Cut, DType, bind_shape
from coconet.lower import lower
from coconet.ops import AllGather, AllReduce, Elementwise, Input, Update, take_piece
from coconet.plan import Plan
from coconet.schedule import (
    Dead,
    Draft,
    Fuse,
    Reorder,
    Schedule,
    SliceState,
    Split,
    Transform,
)

Sizes = dict[str, int]
Arguments = dict[str, Any]
Results = dict[str, tuple[Any, ...]]

GROUP = cc.Group("dp")
A, B, C = cc.dims("A B C")
INTEGERS = (cc.i32, cc.u8, cc.i64, cc.i8, cc.u32, cc.u64)
REALS = (cc.f32, cc.f64)
HALVES = (cc.f16, cc.bf16)
NAMES = ("", "", "x", "y", "y", "x_s", "y_2", "g_s", "_t", "p_ag", "_1")
FLOATS = (0.0, -0.0, 1.0, -1.5, 3.0, 1e-45, 1e300, float("inf"), float("nan"))
INTS = (0, 1, -1, 2, 7, 255, 256, -(2**63), 2**63 - 1)
EXTENTS = (0, 1, 1, 2, 3, 5, 7, 13, 31, 64, 67)


@dataclass
class Case:
    """A program and a schedule of it, for so many ranks and at these sizes."""

    seed: int
    ranks: int
    program: cc.Program
    schedule: Schedule
    sizes: list[Sizes]

    def __str__(self) -> str:
        """Return everything that tells the case."""
        parts = [f"seed {self.seed}, {self.ranks} ranks", self.program, self.schedule]
        return "\n".join(map(str, [*parts, self.schedule.result]))


def draw(seed: int, *, ranks: int | None = None) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    program = _Writer(rng).program(f"fuzz_{seed}")
    count = ranks or int(rng.integers(1, 5))
    schedule = random_schedule(rng, program)
    sizes = [_sizes(rng, program) for _ in range(2)]
    return Case(seed, count, program, schedule, sizes)


def _sizes(rng: np.random.Generator, program: cc.Program) -> Sizes:
    """Return numbers for the dims, none of them so large that a tensor is."""
    sizes = {dim.name: int(rng.choice(EXTENTS)) for dim in program.dims}
    while any(_numel(value, sizes) > 6000 for value in program.inputs):
        sizes[max(sizes, key=sizes.__getitem__)] = 2
    return sizes


def _numel(value: Any, sizes: Sizes) -> int:
    return prod(bind_shape(value.type.shape, sizes))


class _Writer:
    """Writes one random program."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        reals = REALS + HALVES
        self.dtypes = (cc.f32, cc.f32, *reals, *INTEGERS, cc.bool_)
        self.dtype: DType = self.one((cc.f32, *reals, *INTEGERS[:3]))
        extents = (A, A, B, C, 1, 2, 3, 7, 13, 0)
        rank = self.one((0, 1, 1, 1, 2, 2, 2, 2, 3, 3))
        self.shape = tuple(self.one(extents[: 9 + rank // 3]) for _ in range(rank))
        self.inputs: list[cc.Tensor] = []
        self.values: list[cc.Tensor] = []
        self.updated: list[cc.Tensor] = []
        self.scalars = [cc.scalar("s"), cc.scalar("k", cc.i64)]

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def program(self, name: str) -> cc.Program:
        is_training = self.chance(0.6)
        if is_training:
            self._start_as_training_does()
        others = 0 if is_training and self.chance(0.6) else self.rng.integers(2, 6)
        for number in range(int(others)):
            self._declare(f"{self.one('gpmx')}{number}")
        wanted = int(self.rng.integers(1, 26))
        for _ in range(8 * wanted):
            if len(self.values) - len(self.inputs) > wanted:
                break
            with contextlib.suppress(ProgramError):
                made = self._attempt()
                self.values.append(cc.Tensor(replace(made.value, name=self.one(NAMES))))
        return self._finish(name)

    def _start_as_training_does(self) -> None:
        """Begin with what schedules are for: a reduced gradient, and state."""
        layouts = cc.Local(), *([cc.Replicated()] * int(self.rng.integers(1, 4)))
        for name, layout in zip("gpmv", layouts, strict=False):
            self.inputs.append(cc.tensor(name, self.dtype, self.shape, layout, GROUP))
        op = self.one(("sum", "prod", "max"))
        self.values += [*self.inputs[1:], cc.all_reduce(self.inputs[0], op)]

    def _declare(self, name: str) -> None:
        dtype = self.dtype if self.chance(0.8) else self.one(self.dtypes)
        shape = self.shape if self.chance(0.7) else self._smaller(self.shape)
        cuts: list[Cut] = [cc.FLAT, *range(len(shape))]
        cuts += [cc.ROWS(k) for k in range(1, len(shape) + 1)]
        layout = self.one(
            (cc.Local(), cc.Local(), cc.Replicated(), cc.Replicated())
            + ((cc.Sliced(self.one(cuts)),) if shape or self.chance(0.3) else ())
        )
        self.inputs.append(cc.tensor(name, dtype, shape, layout, GROUP))
        self.values.append(self.inputs[-1])

    def _smaller(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a shape that broadcasts to this one."""
        kept = shape[int(self.rng.integers(len(shape) + 1)) :]
        return tuple(1 if self.chance(0.3) else extent for extent in kept)

    def _any(self, dtype: DType | None = None) -> cc.Tensor:
        """Return a value there is, of this dtype if there is one; rather a late one."""
        if dtype is None and self.chance(0.8):
            dtype = self.dtype
        fits = [v for v in self.values if dtype in (None, v.type.dtype)] or self.values
        return fits[max(int(i) for i in self.rng.integers(len(fits), size=2))]

    def _scalar(self, dtype: DType) -> Any:
        """Return a scalar or number; mostly one that this dtype can meet."""
        if dtype.is_float and self.chance(0.6):
            return self.one((self.scalars[0], self.one(FLOATS), self._expression()))
        k = self.scalars[1]
        return self.one((k, self.one(INTS), k * self.one(INTS), cc.minimum(k, 3) - k))

    def _expression(self) -> cc.Tensor:
        s, k = self.scalars
        number = self.one(FLOATS)
        return self.one(
            (
                lambda: s * number + k,
                lambda: number / s - 1,
                lambda: 1 - s**k,
                lambda: cc.sqrt(-s),
                lambda: cc.maximum(cc.abs_(-s * number), 0.25),
                lambda: cc.minimum(s, -0.0) / number,
                lambda: 2**k - s,
            )
        )()

    def _operand(self, x: cc.Tensor) -> Any:
        """Return something to combine with x; mostly what fits it."""
        dtype, layout = x.type.dtype, x.type.layout
        # what a Local value reads of the others can no longer be moved to pieces
        wanted = layout if layout == cc.Local() else cc.Replicated()
        if self.chance(0.25):
            return self._scalar(dtype)
        fits = [
            v
            for v in self.values
            if v.type.dtype == dtype and v.type.layout in (layout, wanted)
        ]
        return self.one(fits) if fits and self.chance(0.8) else self._any(dtype)

    def _attempt(self) -> cc.Tensor:
        """Apply one op, which may be refused."""
        kind = self.one("eeeeeeeeewcrrrsggluu")
        x = self._any()
        match kind:
            case "e":
                return self._elementwise(x)
            case "w":
                condition = self._any(cc.bool_)
                if condition.type.dtype is not cc.bool_:
                    condition = self.one((lambda: x > 0, lambda: cc.equal(x, x)))()
                branches = [self._any(x.type.dtype), self._operand(x)]
                self.rng.shuffle(branches)
                return cc.where(condition, *branches)
            case "c":
                return cc.cast(x, self.one(self.dtypes))
            case "r":
                return cc.all_reduce(x, self.one(("sum", "mean", "prod", "max", "min")))
            case "s":
                cut = self._cut(x)
                return cc.reduce_scatter(x, self.one(("sum", "mean", "max")), cut)
            case "g":
                return cc.all_gather(x)
            case "l":
                return cc.slice_(x, self._cut(x))
            case _:
                return self._update(x)

    def _cut(self, x: cc.Tensor) -> Cut:
        last = max(len(x.type.shape) - 1, 0)
        return self.one((cc.FLAT, cc.FLAT, 0, 1, cc.ROWS(1), last))

    def _elementwise(self, x: cc.Tensor) -> cc.Tensor:
        names = (
            "add add add sub sub mul mul mul div div neg abs sqrt rsqrt relu minimum "
            "maximum clamp",
            "less less_equal greater greater_equal equal not_equal logical_and "
            "logical_or logical_not",
        )
        name = self.one(names[self.chance(0.15)].split())
        if name.startswith("logical"):
            x = self._any(cc.bool_)
        arity = {"neg": 1, "abs": 1, "sqrt": 1, "rsqrt": 1, "relu": 1, "clamp": 3}
        count = arity.get(name, 1 if name == "logical_not" else 2)
        operands = [x, *(self._operand(x) for _ in range(count - 1))]
        self.rng.shuffle(operands)
        return Elementwise(name).of(*operands)

    def _update(self, x: cc.Tensor) -> cc.Tensor:
        fits = [
            t
            for t in self.inputs
            if t.type == x.type and all(t is not u for u in self.updated)
        ]
        target = self.one(fits or self.inputs)
        if any(target is u for u in self.updated):
            return x + 0
        made = cc.update(target, x)
        self.updated.append(target)
        return made

    def _wrote(self, value: cc.Tensor) -> bool:
        return isinstance(value.value.op, Update)

    def _finish(self, name: str) -> cc.Program:
        computed = [v for v in self.values if not isinstance(v.value.op, Input)]
        computed = computed or [self.inputs[0] + 0]
        often = float(self.rng.random() ** 3)
        outputs = [v for v in computed if self.chance(0.9 if self._wrote(v) else often)]
        outputs = outputs or computed[-1:]
        found: dict[Any, None] = {}
        stack = [out.value for out in outputs]
        while stack:
            value = stack.pop()
            found[value] = None
            stack += [v for v in value.inputs if v not in found]
        used = [x for x in self.inputs if x.value in found]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a Local output
            return cc.program(name, inputs=used, outputs=outputs)


_PHASES = (
    (Split, Split, Split, Fuse),
    (Reorder, Reorder, Reorder, Split, Dead),
    (SliceState, SliceState, Reorder, Dead),
    (Fuse, Fuse, Fuse, Dead, SliceState),
)
"""Kinds of steps as schedules go, so that the later ones have something to do."""


def random_schedule(rng: np.random.Generator, program: cc.Program) -> Schedule:
    """Return a schedule of legal steps, from offers and from guesses."""
    draft = program.schedule()
    for phase in _PHASES:
        for _ in range(int(rng.integers(0, 5))):
            kind = phase[int(rng.integers(len(phase)))]
            offers = list(kind.candidates(draft.program))
            if offers and rng.random() < 0.6:
                draft.step(offers[int(rng.integers(len(offers)))])
                continue
            with contextlib.suppress(ScheduleError):
                if rng.random() < 0.15:
                    _by_old_handles(rng, draft, program)
                else:
                    draft.step(_guess(rng, draft.program, kind))
    return draft.schedule


def _some(rng: np.random.Generator, items: Sequence[Any], most: int) -> list[Any]:
    count = int(rng.integers(0, min(len(items), most) + 1))
    return [items[int(i)] for i in rng.permutation(len(items))[:count]]


def _by_old_handles(
    rng: np.random.Generator, draft: Draft, program: cc.Program
) -> None:
    """Apply a verb to values of the program as it was before any step."""
    values = (*program.inputs, *program.values)
    some = _some(rng, values, 5)
    verbs: list[Callable[[], object]] = [
        lambda: draft.fuse(*some),
        lambda: draft.fuse(some, draft.program.fusions),
        lambda: draft.reorder(some[:1], some[1:]),
        lambda: draft.split(some[:1]),
        lambda: draft.dead(some[:2]),
        lambda: draft.slice_state(*some[:1]),
    ]
    verbs[int(rng.integers(len(verbs)))]()


def _guess(
    rng: np.random.Generator, program: cc.Program, kind: type[Transform]
) -> Transform:
    """Return a step that may be illegal."""

    def one(items: Sequence[Any]) -> Any:
        return items[int(rng.integers(len(items)))]

    values = [v for v in program.values if not v.type.is_scalar]
    if kind is Split:
        reductions = list(program.values_of(AllReduce)) or values
        cuts = (cc.FLAT, cc.FLAT, 0, 1, cc.ROWS(1), cc.ROWS(2), -1)
        return Split(one(reductions).name, one(cuts))
    if kind is Reorder:
        gather = one(list(program.values_of(AllGather)) or values)
        after = [v for v in values if _needs(v, gather)] or values
        outs = _some(rng, after, 6)
        if rng.random() < 0.7:
            ends = program.effects + program.outputs
            outs = [v for v in after if v in ends or not program.users(v)]
        return Reorder(gather.name, tuple(v.name for v in outs))
    if kind is not Fuse:
        return kind(one((*program.inputs, *program.values)).name)
    gathers = list(program.values_of(AllGather))
    if gathers and rng.random() < 0.5:
        # what writes the caller's memory on every rank
        gather = one(gathers)
        takers = [u for u in program.users(gather) if isinstance(u.op, Update)]
        return Fuse(tuple(v.name for v in (gather, *takers)))
    if rng.random() < 0.7:
        return Fuse(_grown(rng, program, values))
    start = int(rng.integers(len(values)))
    window = values[start : start + int(rng.integers(1, 9))]
    return Fuse(tuple(v.name for v in window if rng.random() < 0.85))


def _needs(value: Any, source: Any) -> bool:
    stack = [value]
    while stack:
        found = stack.pop()
        if found is source:
            return value is not source
        stack += found.inputs
    return False


def _grown(
    rng: np.random.Generator, program: cc.Program, values: Sequence[Any]
) -> tuple[str, ...]:
    """Return neighbours in the graph, added as long as they may share a kernel."""
    grown = [values[int(rng.integers(len(values)))]]
    for _ in range(12):
        seed = grown[int(rng.integers(len(grown)))]
        near = [v for v in (*seed.inputs, *program.users(seed)) if v in values]
        if not near:
            break
        added = near[int(rng.integers(len(near)))]
        fusion = program.fusion_of(added)
        wanted = [*grown, *(fusion.members if fusion else (added,))]
        names = tuple(v.name for v in dict.fromkeys(wanted))
        with contextlib.suppress(ScheduleError):
            Fuse(names).check(program)
            grown = list(dict.fromkeys(wanted))
    return tuple(v.name for v in grown)


def arguments_of(case: Case, sizes: Sizes, seed: int) -> Arguments:
    """Return what every rank passes to the program as written, hard values among it."""
    made: Arguments = {}
    for value in case.program.inputs:
        key = [seed, *value.name.encode()]
        rng = np.random.default_rng(key)
        if value.type.is_scalar:
            real = float(rng.uniform(-1.5, 1.5)), int(rng.integers(-3, 10))
            made[value.name] = real[0 if value.type.dtype.is_float else 1]
            continue
        shape = bind_shape(value.type.shape, sizes)
        layout = value.type.layout
        many = case.ranks if isinstance(layout, cc.Local) else 1
        wholes = [_hard(value.type, shape, [*key, rank]) for rank in range(many)]
        if isinstance(layout, cc.Sliced):
            made[value.name] = _pieces(wholes * case.ranks, layout.cut)
        else:
            made[value.name] = (wholes * case.ranks)[: case.ranks]
    return made


def _hard(type_: Any, shape: tuple[int, ...], key: list[int]) -> Any:
    whole = random_whole(type_, shape, key)
    rng = np.random.default_rng([*key, 1])
    flat = whole.reshape(-1)
    if not flat.size:
        return whole
    if type_.dtype.is_float:
        hard = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 1.0, -1.0])
    elif type_.dtype.kind == "bool":
        return whole
    else:
        limits = np.iinfo(whole.dtype)
        hard = np.array([limits.min, limits.max, 0, 1], whole.dtype)
    where = rng.integers(flat.size, size=max(1, flat.size // 8))
    with np.errstate(all="ignore"):
        flat[where] = rng.choice(hard, size=where.size).astype(whole.dtype)
    return whole


def _pieces(wholes: Sequence[Any], cut: Cut) -> list[Any]:
    count = len(wholes)
    return [take_piece(whole, cut, i, count).copy() for i, whole in enumerate(wholes)]


def held(case: Case, results: Arguments) -> Arguments:
    """Return arguments or results as the schedule keeps them, some in pieces."""
    made = dict(results)
    for value in case.schedule.result.tensors:
        layout = value.type.layout
        if value.name in made and layout != case.program[value.name].type.layout:
            made[value.name] = _pieces(made[value.name], layout.cut)
    return made


def meaning(case: Case, sizes: Sizes, given: Arguments) -> Results:
    """Return what the program as written gives, as the schedule keeps it."""
    found = run_program(case.program, case.ranks, sizes, given)
    return held(case, found.outputs) | held(case, found.effects)


def differences(case: Case, *, interleavings: int = 2) -> Iterator[str]:
    """Yield what is wrong with a case on simulated ranks."""
    written, result = case.program, case.schedule.result
    plans = {
        "plan as written": (written, lower(written, case.ranks)),
        "plan as scheduled": (result, lower(result, case.ranks)),
    }
    yield from _irreproducible(case, plans["plan as scheduled"][1])
    for number, sizes in enumerate(case.sizes):
        given = arguments_of(case, sizes, case.seed + number)
        need = meaning(case, sizes, given)
        runs = {"scheduled": run_program(result, case.ranks, sizes, held(case, given))}
        for name, (program, plan) in plans.items():
            passed = given if program is written else held(case, given)
            for seed in range(interleavings):
                got = run_plan(plan, sizes, passed, seed=seed)
                if program is written:
                    got = replace(got, effects=held(case, got.effects))
                runs[f"{name}, interleaving {seed}"] = got
        for name, got in runs.items():
            if list(got.outputs) != [v.name for v in written.outputs]:
                yield f"{name}: outputs {list(got.outputs)}"
            found = first_difference(got.outputs | got.effects, need)
            if found is not None:
                yield f"{name} at {sizes}: {found}"


def _irreproducible(case: Case, plan: Plan) -> Iterator[str]:
    """Yield what differs when the schedule is replayed, and texts out of order."""
    schedule = case.schedule
    known: set[str] = set()
    names = {v.name for v in (*schedule.result.inputs, *schedule.result.values)}
    for line in str(schedule.result).splitlines():
        name, _, read = line.split("#")[0].partition(" = ")
        early = (names & set(re.findall(r"\b[a-zA-Z_]\w*", read))) - known
        if early:
            yield f"{name} is printed before {early}"
        known.add(name.split()[0])
    again = Schedule.replay(case.program, schedule.steps)
    if again != schedule or str(again) != str(schedule):
        yield "the replayed schedule is another one"
    if str(again.result) != str(schedule.result):
        yield f"replayed, the program is\n{again.result}"
    if str(lower(again.result, case.ranks)) != str(plan):
        yield "replayed, the plan is another one"


def check_compiled(seeds: list[int]) -> list[str]:
    """Run on one rank: every case compiled to C, called twice; say what is wrong."""
    world = cc.init()
    wrong: list[str] = []
    for seed in seeds:
        case = draw(seed, ranks=world.size)
        step = cc.compile(case.schedule)
        for number, sizes in enumerate(case.sizes):
            found = _compiled_difference(world, step, case, sizes, number)
            if found:
                wrong.append(f"rank {world.rank} at {sizes}: {found}\n{case}")
    return wrong


def _compiled_difference(
    world: Any, step: Any, case: Case, sizes: Sizes, number: int
) -> str:
    """Call one step twice, with tensors in every kind of memory."""
    result = case.schedule.result
    calls = [arguments_of(case, sizes, case.seed + 10 * c + number) for c in range(2)]
    tensors = {
        value.name: _place(world, held(case, calls[0])[value.name][world.rank], place)
        for place, value in enumerate(result.tensors, start=case.seed + number)
    }
    bound = step.bind(sizes=sizes, **tensors)
    for call, given in enumerate(calls):
        for name, array in tensors.items():
            array[...] = held(case, given)[name][world.rank]
        returned = bound(**{v.name: given[v.name] for v in result.scalars})
        need = {n: (a[world.rank],) for n, a in meaning(case, sizes, given).items()}
        names = [value.name for value in result.outputs]
        outputs = (returned,) if len(names) == 1 else returned or ()
        got = {n: (a,) for n, a in zip(names, outputs, strict=True)}
        updated = [value.inputs[0].name for value in result.effects]
        got |= {name: (tensors[name].copy(),) for name in updated}
        found = first_difference(got, need)
        if found is not None:
            return f"call {call + 1}: {found}"
    return ""


def _place(world: Any, like: Any, place: int) -> Any:
    """Return memory for an array: symmetric, private, or private with strides."""
    if place % 3 == 0:
        return world.pool.empty(like.shape, like.dtype)
    if place % 3 == 1:
        return np.empty_like(like)
    return np.empty((*like.shape, 2), like.dtype)[..., 0]
