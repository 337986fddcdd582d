"""From what a caller passes to arrays and sizes, checked against the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from coconet.errors import DtypeError, ProgramError, ShapeError
from coconet.ir import ROWS, Dim, Program, Shape, Sliced, Value, bind_shape
from coconet.ir.layout import piece_shape
from coconet.plan import Buffer, Plan, Role, Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "Signature",
    "as_array",
    "as_tensor",
    "call_scalars",
    "share_memory",
    "stored_shape",
]


def as_array(name: str, given: Any) -> Array:
    """Return a numpy array over the memory of an array or CPU tensor, without a copy.

    Raises TypeError for anything else, and for a tensor that is not on the CPU.
    """
    import numpy as np

    if isinstance(given, np.ndarray):
        return cast("Array", given)
    if not hasattr(given, "data_ptr"):
        raise TypeError(
            f"{name!r} must be an array or a torch tensor, got {type(given).__name__}"
        )
    if given.device.type != "cpu":
        raise TypeError(f"{name!r} is on {given.device}; the C backend needs the CPU")
    tensor = given.detach()
    if str(tensor.dtype) == "torch.bfloat16":
        import ml_dtypes
        import torch

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def as_tensor(array: Array) -> Any:
    """Return a torch tensor over the memory of an array, without a copy."""
    import numpy as np
    import torch

    from_numpy = cast("Any", torch).from_numpy
    if array.dtype.name == "bfloat16":
        return from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return from_numpy(array)


def share_memory(a: Array, b: Array) -> bool:
    """Whether two arrays have a byte in common; taken for granted if hard to tell."""
    import numpy as np

    shares_memory = cast("Any", np.shares_memory)  # numpy types max_work narrowly
    try:
        return shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True


def stored_shape(
    buffer: Buffer, sizes: Mapping[str, int], rank: int, ranks: int
) -> tuple[int, ...]:
    """Return the shape in which a rank stores a buffer."""
    shape = bind_shape(buffer.shape, sizes)
    if buffer.cut is None:
        return shape
    return piece_shape(shape, buffer.cut, rank, ranks)


def call_scalars(
    names: Sequence[str],
    is_int: Sequence[bool],
    given: Sequence[Any],
    named: Mapping[str, Any],
) -> list[float | int]:
    """Return the scalar arguments in order, as Python numbers.

    Raises TypeError for missing or unknown names, and what is not such a number.
    """
    values = [*given, *(named[n] for n in names[len(given) :] if n in named)]
    if len(values) != len(names) or len(given) + len(named) != len(names):
        raise _wrong_names(names, named)
    checked = zip(names, values, is_int, strict=True)
    return [_number(name, value, integer) for name, value, integer in checked]


def _wrong_names(names: Sequence[str], named: Mapping[str, Any]) -> TypeError:
    need, got = ", ".join(names) or "none", ", ".join(named) or "none by name"
    return TypeError(f"the scalars are {need}; got {got}")


def _number(name: str, value: Any, is_int: bool) -> float | int:
    if isinstance(value, (bool, str, bytes)):  # float() would take them
        raise TypeError(f"scalar {name!r} must be a number, got {value!r}")
    if not is_int:
        return float(value)
    number = int(value)
    if number != value or not -(2**63) <= number < 2**63:
        raise TypeError(f"scalar {name!r} is a 64-bit integer, got {value!r}")
    return number


@dataclass(frozen=True, slots=True)
class Signature:
    """What a program's caller passes, on one rank of several.

    tensors  the tensor arguments, in order
    results  what it returns, in order, where a caller may say where to put it
    updated  names of the arguments that are written
    dims     symbolic extents, given by the tensors' shapes
    """

    tensors: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    updated: frozenset[str]
    dims: tuple[Dim, ...]
    rank: int
    ranks: int

    @staticmethod
    def of_plan(plan: Plan, rank: int) -> Signature:
        """Return what a plan's caller passes."""
        tensors, results = map(plan.with_role, (Role.ARGUMENT, Role.RESULT))
        return Signature(tensors, results, plan.updated, plan.dims, rank, plan.ranks)

    @staticmethod
    def of_program(program: Program, rank: int, ranks: int) -> Signature:
        """Return what a program's caller passes."""
        tensors = tuple(_passed(value) for value in program.tensors)
        results = tuple(_passed(value) for value in program.outputs)
        updated = frozenset(update.inputs[0].name for update in program.effects)
        return Signature(tensors, results, updated, program.dims, rank, ranks)

    def match(
        self, given: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
        """Split a call's arguments in tensors by name, scalars in order and by name.

        Raises TypeError for too many, missing or unknown arguments.
        """
        names = [buffer.name for buffer in self.tensors]
        tensors = dict(zip(names, given, strict=False))
        scalars = list(given[len(names) :])
        rest = dict(named)
        for name in names:
            if name in rest:
                if name in tensors:
                    raise TypeError(f"tensor {name!r} is passed twice")
                tensors[name] = rest.pop(name)
        missing = [name for name in names if name not in tensors]
        if missing:
            raise TypeError(f"missing tensors: {', '.join(missing)}")
        return tensors, scalars, rest

    def outs(self, out: Any) -> dict[str, Any]:
        """Return where the results go, by name, from what is passed as `out`.

        None says that they are new.  Raises TypeError unless there is one for each.
        """
        if out is None:
            return {}
        given = cast("Sequence[Any]", out if isinstance(out, (tuple, list)) else (out,))
        names = [buffer.name for buffer in self.results]
        if len(given) != len(names):
            raise TypeError(
                f"the results are {', '.join(names) or 'none'}; out has {len(given)}"
            )
        return dict(zip(names, given, strict=True))

    def check_names(self, tensors: Mapping[str, Any]) -> None:
        """Raise TypeError unless these are the tensor arguments, and nothing else."""
        _, _, rest = self.match((), tensors)
        if rest:
            raise TypeError(f"there is no tensor {', '.join(rest)}")

    def sizes(
        self, arrays: Mapping[str, Any], given: Mapping[str, int]
    ) -> dict[str, int]:
        """Return the number of each symbolic dim, and check every shape and dtype.

        `arrays` are numpy's or torch's, also of results; `given` has the dims that no
        argument shows because it is cut along them.
        Raises ShapeError or DtypeError with what the argument should be.
        """
        sizes = dict(given)
        passed = [x for x in (*self.tensors, *self.results) if x.name in arrays]
        for buffer in passed:
            for dim, extent in _visible_dims(buffer, arrays[buffer.name].shape):
                known = sizes.setdefault(dim.name, extent)
                if known != extent:
                    raise ShapeError(
                        f"{buffer.name!r} does not agree about {dim}",
                        got=extent,
                        need=known,
                    )
        unknown = [dim.name for dim in self.dims if dim.name not in sizes]
        if unknown:
            raise ShapeError(
                "no argument shows the size of " + ", ".join(unknown),
                got="arguments that are cut along it",
                need="its number",
                fix=f"sizes={{'{unknown[0]}': ..}}",
            )
        for buffer in passed:
            self._check(buffer, arrays[buffer.name], sizes)
        return sizes

    def _check(self, buffer: Buffer, array: Any, sizes: Mapping[str, int]) -> None:
        # numpy and torch name the same bits alike
        if str(array.dtype).removeprefix("torch.") != buffer.dtype.numpy.name:
            raise DtypeError(
                f"{buffer.name!r} has the wrong dtype",
                got=array.dtype,
                need=buffer.dtype,
            )
        shape = stored_shape(buffer, sizes, self.rank, self.ranks)
        if array.shape != shape:
            piece = (
                "" if buffer.cut is None else f", this rank's piece by {buffer.cut!r}"
            )
            raise ShapeError(
                f"{buffer.name!r} has the wrong shape",
                got=list(array.shape),
                need=f"{list(shape)}{piece}",
            )

    def check_written(
        self,
        arrays: Mapping[str, Any],
        share_memory: Callable[[Any, Any], bool],
    ) -> None:
        """Raise ProgramError if what is written is read-only or aliases another."""
        results = [buffer.name for buffer in self.results if buffer.name in arrays]
        for name in (*sorted(self.updated), *results):
            target, role = arrays[name], "a result" if name in results else "updated"
            if not getattr(getattr(target, "flags", None), "writeable", True):
                raise ProgramError(
                    f"{name!r} is {role}",
                    got="a read-only array",
                    need="one that can be written",
                )
            for other, array in arrays.items():
                if other != name and share_memory(target, array):
                    raise ProgramError(
                        f"{name!r} is {role} and shares memory with {other!r}",
                        need="separate memory",
                        fix=f"pass a copy as {other!r}",
                    )


def _passed(value: Value) -> Buffer:
    type_ = value.type
    cut = type_.layout.cut if isinstance(type_.layout, Sliced) else None
    return Buffer(
        value.name, type_.dtype, type_.shape, cut, Space.PRIVATE, Role.ARGUMENT
    )


def _visible_dims(buffer: Buffer, shape: tuple[int, ...]) -> list[tuple[Dim, int]]:
    """Return the symbolic dims that an argument's shape shows whole."""
    kept: Shape = buffer.shape
    match buffer.cut:
        case None:
            extents = list(zip(kept, shape, strict=False))
        case int():
            pairs = zip(kept, shape, strict=False)
            extents = [pair for dim, pair in enumerate(pairs) if dim != buffer.cut]
        case ROWS(k):
            extents = list(zip(kept[len(kept) - k :], shape[1:], strict=True))
        case _:
            extents = []
    return [(dim, extent) for dim, extent in extents if isinstance(dim, Dim)]
