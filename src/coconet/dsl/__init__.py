"""What the user types."""

from coconet.dsl.tensor import Tensor, scalar, tensor
from coconet.dsl.trace import program

__all__ = ["Tensor", "program", "scalar", "tensor"]
