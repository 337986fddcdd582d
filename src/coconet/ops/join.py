"""How dtypes, shapes and layouts of element-wise operands combine."""

from __future__ import annotations

from collections.abc import Sequence

from coconet.errors import DtypeError, LayoutError, ShapeError
from coconet.ir import (
    ROWS,
    DType,
    Extent,
    Layout,
    Local,
    Replicated,
    Rooted,
    Shape,
    Sliced,
    TensorType,
    f64,
)

__all__ = ["broadcast_shapes", "check_scalars", "join_dtypes", "join_layouts"]


def join_dtypes(name: str, types: tuple[TensorType, ...]) -> DType:
    """Return the one dtype of all tensors; raises DtypeError if there are two."""
    dtypes = list(dict.fromkeys(t.dtype for t in types))
    if len(dtypes) > 1:
        raise DtypeError(
            f"{name} does not mix dtypes",
            got=" and ".join(map(str, dtypes)),
            need="one dtype",
            fix=f"cast(x, {dtypes[0]})",
        )
    return dtypes[0]


def check_scalars(name: str, dtype: DType, types: tuple[TensorType, ...]) -> None:
    """Raise DtypeError if a real scalar meets a tensor that is not of reals."""
    if not dtype.is_float and any(t.is_scalar and t.dtype is f64 for t in types):
        raise DtypeError(
            f"{name} of a {dtype} tensor and a real scalar",
            got="an f64 scalar",
            need="an integer scalar",
            fix="cast(x, f32), or write an int",
        )


def broadcast_shapes(name: str, types: tuple[TensorType, ...]) -> Shape:
    """Return the common shape, dims aligned from the right.

    Extents fit if they are equal or one is the number 1; a symbol never counts as 1.
    Raises ShapeError if two do not fit.
    """
    rank = max(len(t.shape) for t in types)
    result: list[Extent] = [1] * rank
    for type_ in types:
        offset = rank - len(type_.shape)
        for dim, extent in enumerate(type_.shape, start=offset):
            if result[dim] == 1:
                result[dim] = extent
            elif extent not in (1, result[dim]):
                raise ShapeError(
                    f"{name} got shapes that do not fit",
                    got=" and ".join(str(t) for t in types),
                    need="equal extents, or 1, aligned from the right",
                    fix="declare both by the same dim, or the number 1",
                )
    return tuple(result)


def join_layouts(name: str, types: tuple[TensorType, ...], shape: Shape) -> Layout:
    """Return the result's layout by the table in docs/language.md.

    Raises LayoutError for combinations that have no meaning.
    """
    kinds = list(dict.fromkeys(_aligned(name, t, shape) for t in types))
    special = [kind for kind in kinds if not isinstance(kind, Replicated)]
    if not special:
        return Replicated()
    if len(special) == 1:
        return special[0]
    raise LayoutError(
        f"{name} got layouts that do not combine",
        got=" and ".join(str(t) for t in types),
        need="all Replicated, or one other layout beside Replicated",
        fix=_advice(special),
    )


def _aligned(name: str, type_: TensorType, shape: Shape) -> Layout:
    """Return an operand's layout in terms of the result's dims."""
    layout = type_.layout
    if not isinstance(layout, Sliced):
        return layout
    if isinstance(layout.cut, int):
        dim = layout.cut + len(shape) - len(type_.shape)
        fits = type_.shape[layout.cut] == shape[dim]
        aligned: Layout = Sliced(dim)
    else:
        # ROWS(k) may broadcast inside its rows, the last k dims
        k = layout.cut.k if isinstance(layout.cut, ROWS) else 0
        rows = len(shape) - k
        same_rank = len(type_.shape) == len(shape)
        fits = same_rank and type_.shape[:rows] == shape[:rows]
        aligned = layout
    if not fits:
        raise LayoutError(
            f"{name} cannot broadcast a tensor along the dims it is sliced in",
            got=type_,
            need=f"the full extent of {list(shape)} where it is sliced",
            fix="all_gather(x) first",
        )
    return aligned


def _advice(layouts: Sequence[Layout]) -> str:
    if any(isinstance(layout, Local) for layout in layouts):
        return "all_reduce(x) or reduce_scatter(x) makes a Local value one value"
    if any(isinstance(layout, Rooted) for layout in layouts):
        return "broadcast(x) makes a Rooted value Replicated"
    return "all_gather(x), or slice both by the same cut"
