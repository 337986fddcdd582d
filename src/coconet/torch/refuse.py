"""Parameters that our optimizers would treat wrongly."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from coconet.errors import ProgramError, UnsupportedError
from coconet.torch.kind import DTYPES

__all__ = ["refuse_kinds", "refuse_options", "refuse_overlaps", "refuse_wrapped"]


def refuse_options(options: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for an option of torch.optim that asks for too much."""
    for name in ("capturable", "differentiable"):
        if options.get(name):
            raise UnsupportedError(
                f"{name} is not supported",
                got=f"{name}={options[name]!r}",
                need="a step that neither CUDA graphs nor autograd record",
                fix=f"leave {name} out; torch.optim has it",
            )


def refuse_kinds(
    tensors: Iterable[torch.Tensor],
    what: str = "parameter",
    dtypes: Collection[torch.dtype] = DTYPES,
) -> None:
    """Raise UnsupportedError for a tensor that is not plain and dense on the CPU.

    dtypes  that it may have
    """
    for tensor in tensors:
        kind = (type(tensor.detach()), tensor.layout, tensor.device.type)
        good = (torch.Tensor, torch.strided, "cpu")
        if kind != good or tensor.dtype not in dtypes:
            raise UnsupportedError(
                f"this kind of {what} is not supported",
                got=f"{type(tensor.detach()).__name__} {list(tensor.shape)}, "
                f"{tensor.dtype}, {tensor.layout}, on {tensor.device}",
                need="plain dense tensors on the CPU, of "
                + " or ".join(str(dtype) for dtype in dtypes),
                fix="convert the model before the optimizer is made; "
                "Embedding(sparse=False); for other devices DistributedDataParallel "
                "with torch.optim",
            )


def refuse_overlaps(params: Sequence[torch.Tensor]) -> None:
    """Raise ProgramError if two parameters share memory."""
    spans = sorted(
        (*_span(param), number) for number, param in enumerate(params) if param.numel()
    )
    for (_, end, one), (start, _, other) in pairwise(spans):
        if start < end:
            raise ProgramError(
                "two parameters share memory, and would be torn apart",
                got=f"parameters {min(one, other)} and {max(one, other)}",
                need="separate memory, or one Parameter object used twice",
                fix="tie weights by assignment: b.weight = a.weight",
            )


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    reach = sum(
        (extent - 1) * stride
        for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return start, start + (reach + 1) * tensor.element_size()


def refuse_wrapped(params: Iterable[torch.Tensor]) -> None:
    """Raise ProgramError if DistributedDataParallel reduces a parameter's gradient."""
    wanted = {id(param) for param in params}
    if _is_wrapped(wanted):
        gc.collect()  # one that nobody uses any more is no wrapper
        if _is_wrapped(wanted):
            raise ProgramError(
                "DistributedDataParallel reduces these gradients already",
                got="parameters of a wrapped model",
                need="gradients of this rank alone",
                fix="drop the wrapper: this optimizer averages gradients itself",
            )


def _is_wrapped(wanted: set[int]) -> bool:
    kinds: list[Any] = [DistributedDataParallel]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return any(
        id(param) in wanted
        for found in gc.get_referrers(*kinds)  # instances refer to their class
        if isinstance(found, DistributedDataParallel)
        for param in found.parameters()
    )
