"""Reductions over elements, by the fixed tree of plan/tree.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coconet.errors import DtypeError, LayoutError, ShapeError
from coconet.ir import (
    FLAT,
    ROWS,
    DType,
    Layout,
    Replicated,
    Shape,
    Sliced,
    TensorType,
    Work,
    bool_,
    numel,
)
from coconet.ops.elementwise import wide_dtype
from coconet.ops.op import Emitter, Op, Ranked, call_text, concrete_shape
from coconet.ops.pieces import join_pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coconet.plan import Constant, Register

    Array = NDArray[Any]

__all__ = ["REDUCTIONS", "Reduce", "max_", "mean", "min_", "norm", "prod", "sum_"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a reduction is made of.

    primitive  folds two elements
    before     what each element is turned into
    after      what the fold is turned into, given how many were folded
    """

    primitive: str
    before: Callable[[Any, Any], Any] | None = None
    after: Callable[[Any, DType, Any, Any], Any] | None = None
    floats_only: bool = False


def _square(tile: Any, x: Any) -> Any:
    return tile.apply("mul", x, x)


def _abs(tile: Any, x: Any) -> Any:
    return tile.apply("abs", x)


def _mean(tile: Any, dtype: DType, fold: Any, count: Any) -> Any:
    return tile.apply("div", fold, count)


def _root(tile: Any, dtype: DType, fold: Any, count: Any) -> Any:
    return tile.apply("sqrt", fold)


def _at_least_0(tile: Any, dtype: DType, fold: Any, count: Any) -> Any:
    return tile.apply("max", fold, tile.literal(0.0, dtype))


REDUCTIONS: dict[str, Reduction] = {
    "sum": Reduction("add"),
    "mean": Reduction("add", after=_mean, floats_only=True),
    "max": Reduction("max"),
    "min": Reduction("min"),
    "prod": Reduction("mul"),
    "norm_1": Reduction("add", before=_abs, floats_only=True),
    "norm_2": Reduction("add", before=_square, after=_root, floats_only=True),
    "norm_inf": Reduction("max", before=_abs, after=_at_least_0, floats_only=True),
}


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """Fold elements over some dims, or all; `name` is a key of REDUCTIONS.

    Layout   Replicated, Local -> itself
             Sliced(d), d kept -> Sliced; d folded -> Replicated: the tree per piece,
             then the pieces in rank order
             FLAT over all dims -> Replicated, the same tree as of the whole tensor
             ROWS(k) over dims among the last k -> ROWS of what is left of them
    Dtype    unchanged; 16-bit floats are folded in f32, integers wrap
    Empty    0, 1, the least or the greatest number; mean: NaN
    Wire     folded dims that are cut: at most 128 numbers read from each peer
    Raises   LayoutError  FLAT over some dims, or ROWS(k) over dims before the last k
             DtypeError   bool; mean or a norm of integers
             ShapeError   a dim that is not there, or twice
    """

    name: str
    dims: tuple[int, ...] | None = None
    keepdim: bool = False

    @property
    def meaning(self) -> Reduction:
        """The row of the table."""
        return REDUCTIONS[self.name]

    def folded(self, rank: int) -> tuple[int, ...]:
        """Return the folded dims of a tensor with this many, in order.

        Raises ShapeError if one is not there, or named twice.
        """
        if self.dims is None:
            return tuple(range(rank))
        dims = sorted(dim + rank if dim < 0 else dim for dim in self.dims)
        if len(set(dims)) < len(dims) or any(not 0 <= dim < rank for dim in dims):
            raise ShapeError(
                f"{self.name} folds dims that are not there, or twice",
                got=f"dims {list(self.dims)} of {rank}",
                need=f"each at most once, from {-rank} to {rank - 1}",
            )
        return tuple(dims)

    def infer(self, x: TensorType, **_: Any) -> TensorType:
        """Return the type of the folds."""
        if x.is_scalar or x.dtype is bool_ or self._needs_floats(x.dtype):
            raise DtypeError(
                f"{self.name} has no meaning for {x}",
                got=x,
                need="a float tensor" if self.meaning.floats_only else "numbers",
                fix="a scalar is one number already" if x.is_scalar else "cast(x, f32)",
            )
        dims = self.folded(len(x.shape))
        return replace(x, shape=self._left(x.shape, dims), layout=self._layout(x, dims))

    def _needs_floats(self, dtype: DType) -> bool:
        return self.meaning.floats_only and not dtype.is_float

    def _left(self, shape: Shape, dims: tuple[int, ...]) -> Shape:
        if self.keepdim:
            return tuple(1 if d in dims else extent for d, extent in enumerate(shape))
        return tuple(extent for d, extent in enumerate(shape) if d not in dims)

    def _layout(self, x: TensorType, dims: tuple[int, ...]) -> Layout:
        if not isinstance(x.layout, Sliced):
            return x.layout
        rank = len(x.shape)
        match x.layout.cut:
            case int(cut):
                if cut in dims:
                    return Replicated()
                gone = 0 if self.keepdim else sum(dim < cut for dim in dims)
                return Sliced(cut - gone)
            case ROWS(k) if all(dim >= rank - k for dim in dims):
                return Sliced(ROWS(k if self.keepdim else k - len(dims)))
            case cut if cut == FLAT and len(dims) == rank:
                return Replicated()
            case cut:
                raise LayoutError(
                    f"{self.name} folds dims that {cut!r} cuts through",
                    got=f"{x} over dims {list(dims)}",
                    need="all dims of FLAT, or dims among the last k of ROWS(k)",
                    fix=f"cut by ROWS({rank - min(dims, default=0)}), "
                    "or all_gather(x) first",
                )

    def reference(self, x: Ranked, **_: Any) -> tuple[Any, ...]:
        """Return the folds on every rank."""
        import numpy as np

        from coconet.plan.scalar import ArrayEmitter

        shape = concrete_shape(x.type)
        dims = self.folded(len(shape))
        layout = x.type.layout
        if not isinstance(layout, Sliced):
            return self._ends(x, [self._fold(array, dims) for array in x.arrays])
        if layout.cut == FLAT:
            whole = self._fold(join_pieces(x.arrays, shape, layout.cut), dims)
            return self._ends(x, [whole] * x.ranks)
        if isinstance(layout.cut, ROWS):
            # a piece has its rows in one dim, then the last k
            dims = tuple(dim - (len(shape) - layout.cut.k) + 1 for dim in dims)
            return self._ends(x, [self._fold(array, dims) for array in x.arrays])
        parts = [self._fold(array, dims) for array in x.arrays]
        if layout.cut not in dims:
            return self._ends(x, parts)
        total = parts[0]
        with np.errstate(all="ignore"):
            for part in parts[1:]:
                total = ArrayEmitter().apply(self.meaning.primitive, total, part)
        return self._ends(x, [total] * x.ranks)

    def _fold(self, array: Array, dims: tuple[int, ...]) -> Array:
        """Return the folds of one array in the wide dtype, the dims left as 1."""
        import numpy as np

        from coconet.plan.scalar import ArrayEmitter
        from coconet.plan.tree import fold_rows

        known = DType.of(array.dtype)
        assert known is not None  # interp checks arguments
        wide = array.astype(wide_dtype(known).numpy)
        kept = [dim for dim in range(array.ndim) if dim not in dims]
        with np.errstate(all="ignore"):
            if self.meaning.before is not None:
                wide = self.meaning.before(ArrayEmitter(), wide)
        width = math.prod(array.shape[dim] for dim in dims)
        height = math.prod(array.shape[dim] for dim in kept)
        rows = wide.transpose(*kept, *dims).reshape(height, width)
        left = [1 if d in dims else extent for d, extent in enumerate(array.shape)]
        folds = fold_rows(rows, self.meaning.primitive).reshape(left)
        return folds if self.keepdim else folds.squeeze(tuple(dims))

    def _ends(self, x: Ranked, folds: list[Array]) -> tuple[Any, ...]:
        """Return every rank's folds, finished and rounded."""
        import numpy as np

        from coconet.plan.scalar import ArrayEmitter, round_array, to_dtype

        shape, after = concrete_shape(x.type), self.meaning.after
        wide = wide_dtype(x.type.dtype)
        count = math.prod(shape[dim] for dim in self.folded(len(shape)))
        with np.errstate(all="ignore"):
            if after is not None:
                number = to_dtype(count, wide.numpy)
                tile = ArrayEmitter()
                folds = [after(tile, wide, fold, number) for fold in folds]
        dtype = x.type.dtype.numpy
        return tuple(np.asarray(round_array(fold, dtype)) for fold in folds)

    def work(self, ranks: int, x: TensorType) -> Work:
        """Count one operation per element, each read once."""
        is_sliced = isinstance(x.layout, Sliced)
        elements = numel(concrete_shape(x)) / (ranks if is_sliced else 1)
        is_exchanged = is_sliced and isinstance(self.infer(x).layout, Replicated)
        share = numel(concrete_shape(self.infer(x))) * x.dtype.itemsize
        return Work(
            flops=elements,
            memory_bytes=elements * x.dtype.itemsize,
            wire_bytes=(ranks - 1) * share if is_exchanged else 0,
            steps=int(is_exchanged),
        )

    def lower(self, tile: Emitter, x: TensorType) -> Register | Constant:
        """Return what an element is turned into before it is folded."""
        wide = wide_dtype(x.dtype)
        element = tile.operand(0, x.dtype)
        if wide is not x.dtype:
            element = tile.apply("cast", element, dtype=wide)
        before = self.meaning.before
        return element if before is None else before(tile, element)

    def finish(
        self, tile: Emitter, fold: Register | Constant, x: TensorType
    ) -> Register | Constant:
        """Return the result's element, given a fold in the wide dtype."""
        wide = wide_dtype(x.dtype)
        if self.meaning.after is not None:
            dims = self.folded(len(x.shape))
            count = tile.numel(tuple(x.shape[dim] for dim in dims), wide)
            fold = self.meaning.after(tile, wide, fold, count)
        return fold if wide is x.dtype else tile.apply("cast", fold, dtype=x.dtype)

    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return a call."""
        name, order = self.name, ""
        if name.startswith("norm_"):
            name, order = "norm", name.removeprefix("norm_")
            order = "" if order == "2" else f"ord={order}"
        name = _PYTHON_NAMES.get(name, name)
        dims = "" if self.dims is None else f"dim={_dims_text(self.dims)}"
        keep = "keepdim=True" if self.keepdim else ""
        return call_text(name, inputs[0][0], order, dims, keep)


_PYTHON_NAMES = {"sum": "sum_", "max": "max_", "min": "min_"}


def _dims_text(dims: tuple[int, ...]) -> str:
    return str(dims[0]) if len(dims) == 1 else str(dims)


Dims = int | Sequence[int] | None


def _reduce(name: str, x: Any, dim: Dims, keepdim: bool) -> Any:
    dims = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
    is_text = isinstance(dim, str | bytes)
    if is_text or any(type(d) is not int for d in dims or ()):
        raise TypeError(f"dim is an int, ints or None, got {dim!r}")
    return Reduce(name, dims, bool(keepdim)).of(x)


def sum_(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Add elements over these dims, or all.  See Reduce."""
    return _reduce("sum", x, dim, keepdim)


def mean(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the sum over these dims, or all, by their number.  See Reduce."""
    return _reduce("mean", x, dim, keepdim)


def max_(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the largest element over these dims, or all; NaN wins.  See Reduce."""
    return _reduce("max", x, dim, keepdim)


def min_(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Return the smallest element over these dims, or all; NaN wins.  See Reduce."""
    return _reduce("min", x, dim, keepdim)


def prod(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Multiply elements over these dims, or all.  See Reduce."""
    return _reduce("prod", x, dim, keepdim)


def norm(
    x: Any, dim: Dims = None, keepdim: bool = False, *, ord: float | int = 2
) -> Any:
    """Return the norm over these dims, or all: ord 1, 2 or inf.  See Reduce.

    Raises ValueError for another ord.
    """
    names = {1: "norm_1", 2: "norm_2", math.inf: "norm_inf"}
    if isinstance(ord, bool) or ord not in names:
        raise ValueError(f"norm has ord 1, 2 or inf, got {ord!r}")
    return _reduce(names[ord], x, dim, keepdim)
