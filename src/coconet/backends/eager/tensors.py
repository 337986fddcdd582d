"""Arguments as torch tensors, and results that share memory with none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "as_array",
    "as_tensor",
    "check_argument",
    "one_device",
    "own",
    "share_memory",
    "storage",
    "write",
]

_torch: Any = torch  # torch annotates few parameters
_CPU = torch.device("cpu")


def check_argument(name: str, given: object) -> None:
    """Raise TypeError unless an argument is an array or a tensor."""
    if not isinstance(given, np.ndarray | Tensor):
        raise TypeError(
            f"{name!r} must be an array or a torch tensor, got {type(given).__name__}"
        )


def as_tensor(given: Any) -> Tensor:
    """Return a tensor over an argument's memory; a copy where torch cannot view it."""
    if isinstance(given, Tensor):
        return given.detach()
    if given.dtype == ml_dtypes.bfloat16:
        return as_tensor(given.view(np.int16)).view(torch.bfloat16)
    steps = given.strides
    has_steps = all(step >= 0 and step % given.itemsize == 0 for step in steps)
    can_view = has_steps and given.flags.writeable
    return _torch.from_numpy(given if can_view else given.copy())


def as_array(x: Tensor) -> Array:
    """Return a numpy array over the memory of a CPU tensor."""
    if x.dtype is torch.bfloat16:
        return as_array(x.view(torch.int16)).view(ml_dtypes.bfloat16)
    array: Any = x.numpy()
    return array


def one_device(tensors: Mapping[str, Any]) -> torch.device:
    """Return the device of all arguments; arrays are on the CPU.

    Raises TypeError if there are two.
    """
    devices = {_device(x): name for name, x in tensors.items()}
    if len(devices) > 1:
        where = ", ".join(f"{name!r} on {device}" for device, name in devices.items())
        raise TypeError(f"the tensors of one call are on one device, got {where}")
    return next(iter(devices))


def storage(x: Tensor) -> int:
    """Return what is equal for tensors that are views of one memory."""
    return x.untyped_storage().data_ptr()


def own(x: Any, taken: set[int]) -> Tensor:
    """Return a value as a contiguous tensor in memory not taken yet, and take that."""
    mine: Tensor = (x.clone() if storage(x) in taken else x).contiguous()
    taken.add(storage(mine))
    return mine


def write(target: Any, new: Tensor) -> None:
    """Write into an argument in place, whatever its strides."""
    if isinstance(target, Tensor):
        target.detach().copy_(new)
    else:
        np.copyto(target, as_array(new))


def share_memory(a: Any, b: Any) -> bool:
    """Return whether two arguments' bytes overlap, each taken from first to last."""
    (low, high), (other_low, other_high) = _extent(a), _extent(b)
    return _device(a) == _device(b) and low < other_high and other_low < high


def _device(x: Any) -> torch.device:
    return x.device if isinstance(x, Tensor) else _CPU


def _extent(x: Any) -> tuple[int, int]:
    if not isinstance(x, Tensor):
        low, high = np.lib.array_utils.byte_bounds(x) if x.size else (0, 0)
        return int(low), int(high)
    if not x.numel():
        return 0, 0
    steps = zip(x.shape, x.stride(), strict=True)
    last = sum((extent - 1) * step for extent, step in steps)
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()
