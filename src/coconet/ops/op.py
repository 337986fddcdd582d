"""What every operation must say, and what its rules are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from coconet.errors import GroupError, InternalError
from coconet.ir import DType, Group, Shape, Sliced, TensorType, Work, numel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coconet.plan import Constant, Register

    Array = NDArray[Any]

__all__ = [
    "Emitter",
    "Op",
    "Operand",
    "Ranked",
    "one_group",
    "pointwise_work",
    "type_nbytes",
]


@runtime_checkable
class Operand(Protocol):
    """Anything an op can be applied to: the user's Tensor, or a Value's stand-in."""

    @property
    def type(self) -> TensorType:
        """Dtype, global shape, layout and group."""
        ...

    def emit(self, op: Op, *others: Any) -> Any:
        """Apply an op to this and others, in this order."""
        ...

    def as_one(self, function: Callable[[Any], Any]) -> Any:
        """Return function(self), where only the result has the name of the user's."""
        ...

    def lift(self, operand: Any) -> Any:
        """Return a number, or another operand, as an operand of this kind."""
        ...

    def draw(self, ordinal: int | None) -> int:
        """Return the ordinal of a random op with this seed, or the next one."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A value on every rank of its group, for the reference semantics.

    type    with a concrete shape
    arrays  one per rank; a piece has the shape of `piece_shape`; a scalar is a number
    """

    type: TensorType
    arrays: tuple[Any, ...]

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.arrays)

    @property
    def shape(self) -> tuple[int, ...]:
        """The global shape."""
        return concrete_shape(self.type)


class Emitter(Protocol):
    """What an op sees when it is lowered into a tile."""

    @property
    def ranks(self) -> int:
        """The number of ranks of the group."""
        ...

    def operand(self, number: int, dtype: DType) -> Register | Constant:
        """Return an input's element; a scalar is rounded to this dtype."""
        ...

    def operand_of_each_rank(self, number: int) -> tuple[Register | Constant, ...]:
        """Return an input's element on every rank, in rank order."""
        ...

    def same_place(self, number: int) -> Register:
        """Return an input's element of the same row-major number, in another shape."""
        ...

    def apply(
        self, primitive: str, *args: Register | Constant, dtype: DType | None = None
    ) -> Register:
        """Apply a primitive."""
        ...

    def literal(self, value: float | int, dtype: DType) -> Constant:
        """Return a literal of this dtype."""
        ...

    def numel(self, shape: Shape, dtype: DType) -> Constant:
        """Return the number of a shape's elements in this dtype."""
        ...

    def position(self) -> Register:
        """Return the row-major number, in the global shape, of the element, in i64."""
        ...

    def view(
        self, number: int, axes: tuple[int | None, ...], start: tuple[int, ...]
    ) -> Register:
        """Return an input's element where its dims lie otherwise.

        axes   per dim of the result: the input's dim that moves along, or None
        start  per dim of the input: where it begins
        """
        ...


class Op(ABC):
    """An operation: a frozen dataclass whose fields are its identity.

    spreads  whether each rank writes its piece of the result on every rank
    """

    __slots__ = ()

    spreads: ClassVar[bool] = False

    @abstractmethod
    def infer(self, *inputs: Any, **_: Any) -> TensorType:
        """Return the result's type, or raise a ProgramError."""

    @abstractmethod
    def reference(self, *inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Return the result on every rank, given the inputs as Ranked.

        sizes=, which only some ops read, gives each symbolic dim a number.
        """

    @abstractmethod
    def work(self, ranks: int, *inputs: Any, **_: Any) -> Work:
        """Return the cost on each of `ranks` ranks, given concrete input types."""

    @abstractmethod
    def lower(self, tile: Emitter, *inputs: Any, **_: Any) -> Register | Constant:
        """Return the result's element, given the input types."""

    @abstractmethod
    def text(self, *inputs: tuple[str, int]) -> tuple[str, int]:
        """Return the syntax, and how tightly it binds."""

    def of(self, *operands: Any) -> Any:
        """Apply this op to tensors; all but one may be numbers.

        Raises TypeError if no operand is a tensor of a program.
        """
        tensor = next((x for x in operands if isinstance(x, Operand)), None)
        if tensor is None:
            got = ", ".join(type(x).__name__ for x in operands)
            raise TypeError(f"{self} applies to tensors of a program, got {got}")
        first, *others = operands
        return tensor.lift(first).emit(self, *others)


def call_text(name: str, *args: str) -> tuple[str, int]:
    """Return `name(args)`, which binds as tightly as anything."""
    return f"{name}({', '.join(arg for arg in args if arg)})", 100


def one_group(types: tuple[TensorType, ...]) -> Group | None:
    """Return the group that all tensors live on, or None if all are scalars.

    Raises GroupError if there are two.
    """
    groups = list(dict.fromkeys(t.group for t in types if t.group is not None))
    if len(groups) > 1:
        raise GroupError(
            "values of two groups meet",
            got=" and ".join(map(str, groups)),
            need="one group",
            fix="declare all tensors on one of them",
        )
    return groups[0] if groups else None


def concrete_shape(type_: TensorType) -> tuple[int, ...]:
    """Return a shape without symbols; raises InternalError if it has one."""
    shape = tuple(extent for extent in type_.shape if isinstance(extent, int))
    if len(shape) != len(type_.shape):
        raise InternalError(f"{type_} has an extent without a number")
    return shape


def pointwise_work(ranks: int, result: TensorType, *inputs: TensorType) -> Work:
    """Return one operation per element of a rank, operands read, the result written."""
    if result.is_scalar:
        return Work()
    share = ranks if isinstance(result.layout, Sliced) else 1
    elements = numel(concrete_shape(result)) / share
    moved = sum(t.dtype.itemsize for t in (*inputs, result) if not t.is_scalar)
    return Work(flops=elements, memory_bytes=elements * moved)


def type_nbytes(type_: TensorType) -> int:
    """Return the bytes of the whole tensor, its shape concrete."""
    return numel(concrete_shape(type_)) * type_.dtype.itemsize


def per_rank(ranks: int, function: Callable[[int], Any]) -> tuple[Any, ...]:
    """Return the function's results for every position."""
    return tuple(function(position) for position in range(ranks))
