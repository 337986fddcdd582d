"""Torch tensors with odd strides, gradients of sums, parameters of one or no number."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from probes.cases import Cases
from probes.programs import CUTS, collectives, collectives_need, one_update, schedules
from probes.truth import check, drawn, pieces, stretched
from torch import nn

import coconet as cc
from coconet.backends.arguments import as_array, as_tensor
from coconet.backends.eager import EagerStep
from coconet.runtime.world import World
from coconet.torch import optim

CASES = Cases()
FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": torch.clone,
    "turned": lambda x: x.permute(2, 1, 0).contiguous().permute(2, 1, 0),
    "columns": lambda x: torch.stack([x, x + 1], -1)[..., 0],
    "offset": lambda x: nn.functional.pad(x, (1, 1) * 3)[1:-1, 1:-1, 1:-1],
}


def run(folder: str) -> dict[str, str]:
    """Run on one rank, with a gloo group for what needs one."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    with _gloo(cc.init(), Path(folder)):
        return CASES.run()


@contextmanager
def _gloo(world: World, folder: Path) -> Iterator[None]:
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(str(folder / "store"), world.size),
        rank=world.rank,
        world_size=world.size,
        timeout=timedelta(seconds=60),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


@CASES.on(2)
def torch_tensors_of_any_strides(world: World) -> None:
    """NVIDIA/Megatron-LM#5337, pytorch/pytorch#192920: views were reduced wrong."""
    for dtype in (torch.float32, torch.bfloat16):
        whole = torch.arange(24, dtype=dtype).view(2, 3, 4).transpose(0, 2)
        gs = [whole + 100 * rank for rank in range(world.size)]
        total = gs[0] + gs[1]
        program = one_update(cc.f32 if dtype is torch.float32 else cc.bf16)
        found = schedules(program, 2)
        steps = {name: cc.compile(found[name]) for name in ("as_written", "by 2")}
        steps["eager"] = EagerStep(program)
        for name, step in steps.items():
            for form in FORMS.values():
                g, p = form(gs[world.rank]), form(torch.zeros_like(total))
                doubled = step(g, p)
                assert torch.equal(p, -total), f"{name}: {p}"
                assert torch.equal(doubled, total + total), f"{name}: {doubled}"
                assert torch.equal(g, gs[world.rank]), f"{name}: {g}"
            ones = torch.ones((), dtype=dtype).expand(4, 3, 2)
            p = torch.zeros(4, 6, 2, dtype=dtype)
            step(ones, p[:, ::2])
            assert torch.equal(p[:, ::2], -2 * ones), f"{name}: {p}"
            assert not p[:, 1::2].any(), f"{name}: {p}"


@CASES.on(2)
def strided_tensors_through_gloo(world: World) -> None:
    """pytorch/pytorch#192920, #159548, #24836, #73515: scatter, gather .. of views."""
    step = EagerStep(collectives())
    forms = {"stretched": stretched} | {
        name: lambda array, form=form: as_array("", form(as_tensor(array)))
        for name, form in FORMS.items()
    }
    for shape in ((2, 3, 4), (5, 1, 7), (1, 0, 2)):
        for name, form in forms.items():
            # flat pieces have one dim, pieces by rows two
            odd = form if name == "stretched" else lambda x: x
            xs = [form(drawn(cc.f32, shape, rank)) for rank in range(world.size)]
            whole = form(drawn(cc.f32, shape, 99))
            named = {
                f"y{i}": (form if isinstance(cut, int) else odd)(
                    pieces(whole, cut, world.size)[world.rank]
                )
                for i, cut in enumerate(CUTS)
            }
            sizes = dict(zip("ABC", shape, strict=True))
            got = step.bind(sizes=sizes, x=xs[world.rank], r=whole, **named)()
            need = collectives_need(xs, whole, world.rank)
            for number, pair in enumerate(zip(got, need, strict=True)):
                check(f"output {number} of {shape}, {name}", *pair)


@CASES.on(2)
def gradients_of_a_sum_have_no_strides(world: World) -> None:
    """pytorch/pytorch#73515: the gradient of a sum is one number with stride 0."""
    for shape in ((), (1,), (70,), (5, 7), (2, 3, 4, 5)):
        first = nn.Parameter(torch.zeros(shape))
        second = nn.Parameter(torch.zeros(shape).transpose(0, -1) if shape else first)
        params = [first, second] if shape else [first]
        ours = optim.SGD(params, lr=1.0)
        for _ in range(2):
            ours.zero_grad()
            sum((1 + world.rank) * param.sum() for param in params).backward()
            ours.step()
        for param in params:
            param.grad = torch.ones(()).expand(param.shape)
        ours.step()
        assert all(bool((param == -4).all()) for param in params), params


@CASES.on(2)
def parameters_without_elements(world: World) -> None:
    """pytorch/pytorch#85234, #140741: a group of empty tensors crashed."""
    shapes = ((0,), (1, 0, 2), (0, 3))
    for name in ("SGD", "Adam", "AdamW"):
        empty = [nn.Parameter(torch.empty(shape)) for shape in shapes]
        weight = nn.Parameter(torch.ones(3))
        alone = getattr(optim, name)(empty[:1], lr=0.5)
        beside = getattr(optim, name)(
            [{"params": empty[1:]}, {"params": [weight]}], lr=0.5
        )
        for ours in (alone, beside):
            for _ in range(2):
                ours.zero_grad()
                (sum(param.sum() for param in empty) + weight.sum()).backward()
                ours.step()
            ours.load_state_dict(copy.deepcopy(ours.state_dict()))
            ours.step()
        assert [tuple(param.shape) for param in empty] == list(shapes)
        assert bool((weight < 0.5).all())


@CASES.on(2)
def parameters_of_no_dims(world: World) -> None:
    """pytorch/pytorch#130810, #131976: 0-d parameters could not be sharded or saved."""
    for dtype in (torch.float32, torch.bfloat16):
        ours_param = nn.Parameter(torch.tensor(1.5, dtype=dtype))
        theirs_param = nn.Parameter(ours_param.detach().float().clone())
        ours = optim.AdamW([ours_param], lr=0.25)
        theirs = torch.optim.AdamW([theirs_param], lr=0.25)
        for step in range(4):
            ours_param.grad = torch.tensor(2.0 * world.rank - step, dtype=dtype)
            theirs_param.grad = torch.tensor(1.0 - step)
            ours.step()
            theirs.step()
            if step == 1:  # go on from a checkpoint, in an optimizer of its own
                saved = copy.deepcopy(ours.state_dict())
                ours_param = nn.Parameter(ours_param.detach().clone())
                ours = optim.AdamW([ours_param], lr=9.0)
                ours.load_state_dict(saved)
        assert ours_param.shape == ()
        need = theirs_param.detach().to(dtype)
        assert torch.allclose(ours_param.detach(), need, rtol=1e-6), ours_param
        assert ours.state_dict()["state"][0]["exp_avg"].shape == ()
