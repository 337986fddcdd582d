"""What all engines of a run do: the step, on which dtype, from which numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BETAS", "DTYPES", "EPS", "LR", "Array", "Task"]

Array = NDArray[Any]

LR, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8
DTYPES = ("f32", "bf16")

# Of the piece that a rank updates, beside the exchanged gradient and parameter: the
# parameter is read, or its f32 master weights are read and written; moments likewise.
_STATE_BYTES = {
    ("sgd", "f32"): 4,
    ("sgd", "bf16"): 8,
    ("adam", "f32"): 20,
    ("adam", "bf16"): 24,
}


@dataclass(frozen=True, slots=True)
class Task:
    """One step of an optimizer with the all-reduce of its gradient.

    Attributes
      optimizer  "adam" or "sgd"
      dtype      "f32", or "bf16": of gradient and parameter, with f32 master weights
    """

    optimizer: str
    dtype: str

    @property
    def fused(self) -> str:
        """Return what torch's fused optimizer does, as part of a schedule."""
        wide = "" if self.dtype == "f32" else " on f32 weights; cast"
        return f"{self.optimizer}(fused){wide}"

    def parameter(self, elements: int) -> Array:
        """Return the f32 parameter before the first step; it is small: steps show."""
        return self._uniform(elements, stream=0) * np.float32(2**-7)

    def gradient(self, elements: int, rank: int) -> Array:
        """Return the f32 gradient of one rank."""
        return self._uniform(elements, stream=1 + rank)

    def stored(self, values: Array) -> Array:
        """Return f32 values in the task's dtype; f32 ones as they are."""
        if self.dtype == "f32":
            return values
        from ml_dtypes import bfloat16

        return values.astype(bfloat16)

    def least_bytes(self, elements: int, ranks: int) -> int:
        """Return the least bytes a rank reads and writes in one step.

        It reads its piece of every rank's gradient and of its state, and writes its
        piece of the state, and of the parameter on every rank.
        """
        item = 4 if self.dtype == "f32" else 2
        piece = -(-elements // ranks)
        return 2 * item * elements + _STATE_BYTES[self.optimizer, self.dtype] * piece

    def _uniform(self, elements: int, *, stream: int) -> Array:
        """Return numbers in [-1, 1]; those for bf16 and sums of four are bf16 numbers.

        So the engines agree, whatever they add first and round when.
        """
        random = np.random.default_rng([2022, stream])
        numbers = random.random(elements, dtype=np.float32) * np.float32(2)
        numbers -= np.float32(1)
        if self.dtype == "bf16":
            numbers *= np.float32(64)
            np.rint(numbers, out=numbers)
            numbers /= np.float32(64)
        return numbers
