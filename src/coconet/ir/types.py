"""The type of a value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coconet.ir.dtype import DType, f64, i64
from coconet.ir.group import Group
from coconet.ir.layout import Layout, Replicated
from coconet.ir.shape import Shape

__all__ = ["TensorType", "scalar_type"]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Dtype, global shape, layout and group; a scalar is 0-dim and has no group."""

    dtype: DType
    shape: Shape
    layout: Layout
    group: Group | None

    @property
    def is_scalar(self) -> bool:
        """Whether this is a scalar: weakly typed, evaluated once per call."""
        return self.group is None

    def with_layout(self, layout: Layout) -> TensorType:
        """Return this type in another layout."""
        return replace(self, layout=layout)

    def __str__(self) -> str:
        """Return the type as programs print it: `f32[N] Replicated`."""
        if self.is_scalar:
            return f"{self.dtype} scalar"
        extents = ", ".join(str(extent) for extent in self.shape)
        return f"{self.dtype}[{extents}] {layout_text(self.layout)}"


def layout_text(layout: Layout) -> str:
    """Return a layout as programs print it, without empty parentheses."""
    return repr(layout).removesuffix("()")


def scalar_type(dtype: DType) -> TensorType:
    """Return the type of a scalar; raises ValueError unless f64 or i64."""
    if dtype not in (f64, i64):
        raise ValueError(f"scalars are f64 or i64, got {dtype!r}")
    return TensorType(dtype, (), Replicated(), None)
