"""Random programs: every op, layout and dtype, in shapes that fit often enough."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np

import coconet as cc
from coconet.errors import ProgramError
from coconet.ir import Cut, DType
from coconet.ops import ELEMENTWISE, Elementwise, Input, Update

Shape = tuple[Any, ...]

GROUP = cc.Group("dp")
A, B, C = cc.dims("A B C")
INTEGERS = (cc.i32, cc.u8, cc.i64, cc.i8, cc.u32, cc.u64)
REALS = (cc.f32, cc.f64)
HALVES = (cc.f16, cc.bf16)
NAMES = ("", "", "x", "y", "y", "x_s", "y_2", "g_s", "_t", "p_ag", "_1")
FLOATS = (0.25, 1.0, -1.5, 3.0) * 5 + (0.0, -0.0, 1e-45, 1e300, inf, float("nan"))
INTS = (0, 1, -1, 2, 7, 255, 256, -(2**63), 2**63 - 1)
KINDS = "eeeeeeeemmmwdcrrrssgggluuRRRVVC"
"""What is attempted, by how often: see _Writer._attempt."""
TRAINING_KINDS = "eeeeeeemmwddcuuuRRRC"
"""What follows reduced gradients, and may mostly be moved to pieces."""
ARITHMETIC = (
    "add add add sub sub mul mul mul div div neg abs sqrt rsqrt relu minimum "
    "maximum clamp"
)
TESTS = (
    "less less_equal greater greater_equal equal not_equal logical_and "
    "logical_or logical_not"
)
FUNCTIONS = "exp log sin cos tanh erf sigmoid silu gelu gelu_tanh pow"
REDUCTIONS: tuple[Callable[..., Any], ...] = (
    cc.sum_,
    cc.sum_,
    cc.mean,
    cc.max_,
    cc.min_,
    cc.prod,
    cc.norm,
    lambda x, *how: cc.norm(x, *how, ord=1),
    lambda x, *how: cc.norm(x, *how, ord=inf),
)


def random_program(rng: np.random.Generator, name: str) -> cc.Program:
    """Return a program of up to some 20 operations."""
    return _Writer(rng).program(name)


class _Writer:
    """Writes one random program."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        reals = REALS + HALVES
        self.dtypes = (cc.f32, cc.f32, *reals, *INTEGERS, cc.bool_)
        self.dtype: DType = self.one((*[cc.f32] * 3, *reals, *reals, *INTEGERS))
        extents = (A, A, A, B, B, C, C, 1, 2, 3, 7, 13, 0)
        rank = self.one((0, 1, 1, 1, 2, 2, 2, 2, 3, 3))
        self.shape = tuple(self.one(extents[: 12 + rank // 3]) for _ in range(rank))
        self.inputs: list[cc.Tensor] = []
        self.values: list[cc.Tensor] = []
        self.updated: list[cc.Tensor] = []
        self.scalars = [cc.scalar("s"), cc.scalar("k", cc.i64)]
        self.is_training = False

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def program(self, name: str) -> cc.Program:
        if self.chance(0.75):
            self._start_as_training_does()
        others = 0 if self.is_training else self.rng.integers(2, 6)
        for number in range(int(others)):
            self._declare(f"{self.one('gpmx')}{number}")
        wanted = int(self.rng.integers(1, 21))
        for _ in range(8 * wanted):
            if len(self.values) - len(self.inputs) > wanted:
                break
            with contextlib.suppress(ProgramError):
                made = self._attempt()
                self.values.append(cc.Tensor(replace(made.value, name=self.one(NAMES))))
        return self._finish(name)

    def _start_as_training_does(self) -> None:
        """Begin with what schedules are for: whole gradients, and state."""
        self.is_training = self.chance(0.7)
        gradients = 1 + self.chance(0.25)
        names = "gh"[:gradients] + "pmv"[: int(self.rng.integers(1, 4))]
        is_cut = self.chance(0.15)
        gradient = cc.Sliced(self.one(self._cuts(self.shape))) if is_cut else cc.Local()
        for number, name in enumerate(names):
            layout = gradient if number < gradients else cc.Replicated()
            self.inputs.append(cc.tensor(name, self.dtype, self.shape, layout, GROUP))
        op = self.one(("sum", "prod", "max"))
        self.values += self.inputs[gradients:]
        for x in self.inputs[:gradients]:
            self.values.append(cc.all_gather(x) if is_cut else cc.all_reduce(x, op))

    def _cuts(self, shape: Shape) -> list[Cut]:
        rows = (cc.ROWS(k) for k in range(1, len(shape) + 1))
        return [cc.FLAT, *range(len(shape)), *rows]

    def _declare(self, name: str) -> None:
        dtype = self.dtype if self.chance(0.8) else self.one(self.dtypes)
        shape = self.shape if self.chance(0.7) else self._smaller(self.shape)
        layouts = [cc.Local(), cc.Local(), cc.Replicated(), cc.Replicated()]
        if shape or self.chance(0.3):
            layouts += [cc.Sliced(self.one(self._cuts(shape)))] * 2
        layout = self.one(layouts)
        self.inputs.append(cc.tensor(name, dtype, shape, layout, GROUP))
        self.values.append(self.inputs[-1])

    def _smaller(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts to this one."""
        kept = shape[int(self.rng.integers(len(shape) + 1)) :]
        return tuple(1 if self.chance(0.3) else extent for extent in kept)

    def _any(self, dtype: DType | None = None) -> cc.Tensor:
        """Return a value there is, of this dtype if there is one; rather a late one."""
        if dtype is None and self.chance(0.8):
            dtype = self.dtype
        fits = [v for v in self.values if dtype in (None, v.type.dtype)] or self.values
        return fits[max(int(i) for i in self.rng.integers(len(fits), size=2))]

    def _real(self) -> cc.Tensor:
        """Return a value of real numbers, cast if it must be."""
        x = self._any()
        is_real = x.type.dtype.is_float
        return x if is_real else cc.cast(x, self.one(REALS + HALVES))

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
            if v.type.dtype == dtype
            and v.type.layout in (layout, wanted)
            and _broadcast(v.type.shape, x.type.shape)
        ]
        return self.one(fits) if fits and self.chance(0.8) else self._any(dtype)

    def _attempt(self) -> cc.Tensor:
        """Apply one op, which may be refused."""
        kind = self.one(TRAINING_KINDS if self.is_training else KINDS)
        x = self._any()
        match kind:
            case "e":
                return self._elementwise(x)
            case "m":
                return self._function(self._real())
            case "w":
                condition = self._any(cc.bool_)
                if condition.type.dtype is not cc.bool_:
                    condition = self.one((lambda: x > 0, lambda: cc.equal(x, x)))()
                branches = [self._any(x.type.dtype), self._operand(x)]
                self.rng.shuffle(branches)
                return cc.where(condition, *branches)
            case "d":
                p = self.one((0, 0.1, 0.5, 0.5, 1))
                return cc.dropout(self._real(), p, self.scalars[1])
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
            case "R":
                is_kept = self.chance(0.9 if self.is_training else 0.6)
                return self.one(REDUCTIONS)(x, self._folded(x), is_kept)
            case "V":
                return self._view(x)
            case "C":
                return self._composite(self._real())
            case _:
                return self._update(x)

    def _cut(self, x: cc.Tensor) -> Cut:
        last = max(len(x.type.shape) - 1, 0)
        return self.one((cc.FLAT, cc.FLAT, 0, 1, cc.ROWS(1), last))

    def _elementwise(self, x: cc.Tensor) -> cc.Tensor:
        name = self.one((TESTS if self.chance(0.15) else ARITHMETIC).split())
        if name.startswith("logical"):
            x = self._any(cc.bool_)
        others = range(ELEMENTWISE[name].arity - 1)
        operands = [x, *(self._operand(x) for _ in others)]
        self.rng.shuffle(operands)
        return Elementwise(name).of(*operands)

    def _function(self, x: cc.Tensor) -> cc.Tensor:
        name = self.one(FUNCTIONS.split())
        others = range(ELEMENTWISE[name].arity - 1)
        return Elementwise(name).of(x, *(self._operand(x) for _ in others))

    def _folded(self, x: cc.Tensor) -> tuple[int, ...] | None:
        """Return dims to reduce over; mostly what the layout allows."""
        rank, layout = len(x.type.shape), x.type.layout
        cut = layout.cut if isinstance(layout, cc.Sliced) else None
        if cut == cc.FLAT or self.chance(0.3):
            return None
        first = rank - cut.k if isinstance(cut, cc.ROWS) else 0
        if self.chance(0.5):  # the last ones, which may share a kernel
            first = int(self.rng.integers(first, rank + 1))
            return tuple(range(first, rank))
        return tuple(
            dim - rank * self.chance(0.3)
            for dim in range(first, rank)
            if self.chance(0.5)
        )

    def _composite(self, x: cc.Tensor) -> cc.Tensor:
        dims = self._folded(x) or -1
        weight, bias = self._operand(x), self._operand(x)
        return self.one(
            (
                lambda: cc.softmax(x, dims if isinstance(dims, int) else dims[-1]),
                lambda: cc.layer_norm(x, weight, bias, dim=dims),
                lambda: cc.rms_norm(x, weight, dim=dims),
            )
        )()

    def _view(self, x: cc.Tensor) -> cc.Tensor:
        rank = len(x.type.shape)
        order = tuple(int(dim) for dim in self.rng.permutation(rank))
        return self.one(
            (
                lambda: cc.reshape(x, self._reshaped(x.type.shape)),
                lambda: cc.transpose(x, order),
                lambda: self._index(x),
                lambda: self._concat(x),
            )
        )()

    def _reshaped(self, shape: Shape) -> Shape:
        """Return a shape of as many elements, some dims of which may be the same."""
        extents = list(shape)
        for _ in range(int(self.rng.integers(1, 4))):
            dim = int(self.rng.integers(len(extents) + 1))
            part = extents[dim : dim + 2]
            are_numbers = all(isinstance(extent, int) for extent in part)
            others = [
                part[::-1],
                [1, *part],
                [extent for extent in part if extent != 1],
                [prod(part)] if are_numbers else part,
                [*_factors(prod(part))] if are_numbers else part,
            ]
            extents[dim : dim + 2] = self.one(others)
        return tuple(extents)

    def _numbered(self, x: cc.Tensor) -> int:
        """Return a dim whose extent is a number, if there is one."""
        shape = x.type.shape
        return self.one([d for d, n in enumerate(shape) if isinstance(n, int)] or [0])

    def _index(self, x: cc.Tensor) -> cc.Tensor:
        dim = self._numbered(x)
        most = max(
            [n for n in x.type.shape[dim : dim + 1] if isinstance(n, int)] or [0]
        )
        length = self.one((None, 0, 1, 1, 2, 2, 3))
        return cc.index(x, dim, int(self.rng.integers(most + 1)), length)

    def _concat(self, x: cc.Tensor) -> cc.Tensor:
        dim = self._numbered(x)

        def fits(y: cc.Tensor) -> bool:
            with contextlib.suppress(ProgramError):
                return bool(cc.concat([x, y], dim))
            return False

        others = [y for y in self.values if y is not x and fits(y)] or [x]
        parts = [x, *(self.one(others) for _ in range(int(self.rng.integers(3))))]
        self.rng.shuffle(parts)
        return cc.concat(parts, dim)

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
        often = float(self.rng.random() ** (1 if self.is_training else 3))
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


def _broadcast(shape: Shape, other: Shape) -> bool:
    """Whether two shapes fit, aligned from the right."""
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def _factors(number: int) -> tuple[int, int]:
    """Return two factors of a number, the first of them small."""
    small = next((n for n in (2, 3, 5, 7) if number % n == 0), 1)
    return small, number // small
