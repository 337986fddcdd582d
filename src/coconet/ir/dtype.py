"""Element types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "DTYPES",
    "DType",
    "bf16",
    "bool_",
    "f16",
    "f32",
    "f64",
    "i8",
    "i32",
    "i64",
    "u8",
    "u32",
    "u64",
]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    name      as programs print it
    itemsize  bytes of one element
    kind      "float", "int", "uint" or "bool"
    """

    name: str
    itemsize: int
    kind: str

    @property
    def is_float(self) -> bool:
        """Whether values are real numbers."""
        return self.kind == "float"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype of the same bits (bf16 comes from ml_dtypes)."""
        import numpy as np

        if self.name == "bf16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(_NUMPY_NAMES[self.name])

    @staticmethod
    def of(numpy_dtype: np.dtype[Any]) -> DType | None:
        """Return the element type with these bits, or None if there is none."""
        return _BY_NUMPY_NAME.get(numpy_dtype.name)

    def __repr__(self) -> str:
        """Return the name, as programs print it."""
        return self.name


f16 = DType("f16", 2, "float")
bf16 = DType("bf16", 2, "float")
f32 = DType("f32", 4, "float")
f64 = DType("f64", 8, "float")
i8 = DType("i8", 1, "int")
u8 = DType("u8", 1, "uint")
i32 = DType("i32", 4, "int")
u32 = DType("u32", 4, "uint")
i64 = DType("i64", 8, "int")
u64 = DType("u64", 8, "uint")
bool_ = DType("bool", 1, "bool")

DTYPES = {d.name: d for d in (f16, bf16, f32, f64, i8, u8, i32, u32, i64, u64, bool_)}

_NUMPY_NAMES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "u8": "uint8",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u64": "uint64",
    "bool": "bool",
}
_BY_NUMPY_NAME = {numpy: DTYPES[name] for name, numpy in _NUMPY_NAMES.items()}
