"""What every rank of a world runs for test_optim: parameters that are not f32."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from coconet.errors import RanksDisagree, UnsupportedError
from coconet.runtime.world import World
from coconet.torch import amp, optim

from optim_cases import EVERYWHERE, OPTIONS  # isort: skip
from rank_cases import Cases  # isort: skip
from training import check_close  # isort: skip

CASES = Cases()
case = CASES.add
case_on_2 = partial(CASES.add, worlds=(2,))
case_on_3 = partial(CASES.add, worlds=(3,))  # optim_cases has f32 on 1 and 2

HALVES = (torch.bfloat16, torch.float16)
DTYPES = (*HALVES, torch.float32, torch.float64)
SHAPES = ((7, 9), (), (0, 3), (130,), (5, 3, 2, 2), (1,))
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def run_cases(folder: str) -> dict[str, str]:
    return CASES.run(folder)


def exact(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32


def parameters(*dtypes: torch.dtype, seed: int = 0) -> list[Any]:
    """Return a parameter of each shape and dtype, those of one shape together."""
    torch.manual_seed(seed)
    made: list[Any] = []
    for shape, dtype in itertools.product(SHAPES, dtypes):
        value = torch.randn(shape).to(dtype)
        if value.dim() == 4:
            value = value.to(memory_format=torch.channels_last)
        made.append(nn.Parameter(value))
    return made


def gradient(param: Any, number: int, step: int, rank: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * step + 100 * rank + number)
    drawn = torch.randn(param.shape, generator=generator)
    return drawn.to(param.grad_dtype)


def give_gradients(world: World, params: Iterable[Any], step: int) -> None:
    for number, param in enumerate(params):
        param.grad = gradient(param, number, step, world.rank)


def mean(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the mean as ranks exchange it: rounded once to the gradients' dtype."""
    dtype = gradients[0].dtype
    total = sum(each.to(exact(dtype)) for each in gradients)
    return (total / len(gradients)).to(dtype)


class Masters:
    """Exact copies of parameters, trained by torch's optimizer in this process."""

    def __init__(self, params: Iterable[Any], make: Callable[[Any], Any]) -> None:
        self.weights = [nn.Parameter(p.detach().to(exact(p.dtype))) for p in params]
        self.optimizer = make(self.weights)

    def take(self, gradients: Iterable[torch.Tensor | None]) -> None:
        for weight, grad in zip(self.weights, gradients, strict=True):
            weight.grad = None if grad is None else grad.to(weight.dtype)
        self.optimizer.step()

    def step(self, world: World, params: Sequence[Any], step: int) -> None:
        self.take(
            mean([gradient(param, number, step, rank) for rank in range(world.size)])
            for number, param in enumerate(params)
        )


def both(name: str, params: Sequence[Any], **extra: Any) -> tuple[Any, Masters]:
    kind, options = OPTIONS[name]
    masters = Masters(params, lambda ps: getattr(torch.optim, kind)(ps, **options))
    return getattr(optim, kind)(params, **options, **extra), masters


def bits(tensors: Iterable[torch.Tensor]) -> list[list[int]]:
    return [
        t.detach().reshape(-1).view(BITS[t.element_size()]).tolist() for t in tensors
    ]


def weights_of(ours: Any, params: Sequence[Any]) -> list[torch.Tensor]:
    """Return what the optimizer computes with; parameters are rounded copies of it."""
    state = ours.state_dict()["state"]
    found = []
    for number, param in enumerate(params):
        kept = state.get(number, {})
        assert ("master" in kept) == (param.dtype in HALVES)
        weight = kept.get("master", param.detach())
        assert weight.dtype is exact(param.dtype)
        assert bits([weight.to(param.dtype)]) == bits([param])
        found.append(weight)
    return found


def check_masters(
    ours: Any, params: Sequence[Any], masters: Masters, tolerance: float = 2e-6
) -> None:
    check_close(weights_of(ours, params), masters.weights, tolerance)


def check_moments(ours: Any, masters: Masters, tolerance: float = 1e-5) -> None:
    got, need = ours.state_dict()["state"], masters.optimizer.state_dict()["state"]
    for number, kept in need.items():
        assert got[number].keys() - {"master"} == kept.keys()
        for name, tensor in kept.items():
            if tensor is not None:
                assert got[number][name].dtype is tensor.dtype
                check_close([got[number][name]], [tensor], tolerance)


def options_case(name: str) -> Callable[[World], None]:
    def run(world: World) -> None:
        params = parameters(*DTYPES)
        ours, masters = both(name, params)
        for step in range(12):
            give_gradients(world, params, step)
            ours.step()
            masters.step(world, params, step)
            for group in (*ours.param_groups, *masters.optimizer.param_groups):
                group["lr"] *= 0.9
            assert ours.explain().num_calls == len(DTYPES) + (step == 0)
        check_masters(ours, params, masters, 1e-5)
        check_moments(ours, masters)
        assert ours.explain().num_frozen == 0

    run.__name__ = f"options_{name}"
    return run


for option in EVERYWHERE:
    case(options_case(option), (1, 2, 3) if option == "adamw_all" else (2,))


@case_on_2
def small_steps_are_not_lost(world: World) -> None:
    for dtype in HALVES:
        param = nn.Parameter(torch.ones(200, dtype=dtype))
        ours = optim.SGD([param], lr=2.0**-14)
        for _ in range(2**9):
            param.grad = torch.ones_like(param)  # each step is far below half an ulp
            ours.step()
        assert param.tolist() == [1 - 2.0**-5] * 200


@case_on_2
def gradients_near_0_do_not_blow_up(world: World) -> None:
    for dtype, scale, grad_dtype in (
        (torch.bfloat16, 1.0, None),
        (torch.bfloat16, 2.0**16, None),
        (torch.bfloat16, 1.0, torch.float32),
        (torch.float16, 2.0**16, None),  # f16 has no 1e-8: this is what scaling is for
        (torch.float16, 1.0, torch.float32),
        (torch.float32, 2.0**16, None),
        (torch.float64, 1.0, None),
    ):
        params = parameters(dtype)
        ours, masters = both("adamw", params, grad_dtype=grad_dtype)
        scaler = amp.GradScaler("cpu", init_scale=scale, enabled=scale != 1)
        for step in range(12):
            small = torch.tensor(0.0 if step < 5 else 1e-8 * scale)
            for param in params:
                small = small.to(param.grad_dtype)
                param.grad = small.expand(param.shape).clone()
            scaler.scale(torch.zeros(()))
            scaler.step(ours)
            scaler.update()
            masters.take([small.double() / scale + 0 * p for p in masters.weights])
        assert all(bool(p.isfinite().all()) for p in params)
        check_masters(ours, params, masters)
        check_moments(ours, masters)


@case_on_2
def microbatches_add_up_in_f32(world: World) -> None:
    for dtype, set_to_none in itertools.product(HALVES, (False, True)):
        shapes: list[Any] = [(70,), (), (3, 5)]
        params = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes]
        ours = optim.SGD(params, lr=1.0, grad_dtype=torch.float32)
        for step in range(1, 3):
            for factor in (256.0, 1.0, 2.0):
                used = params if factor == 2 else params[:2]  # one is used at the end
                sum((param * factor).sum() for param in used).backward()
            assert params[0].grad.dtype is torch.float32
            ours.step()
            state = ours.state_dict()["state"]
            for number, total in enumerate((259.0, 259.0, 2.0)):
                need = torch.full(shapes[number], -total * step)
                assert torch.equal(state[number]["master"], need)
                assert torch.equal(params[number].detach(), need.to(dtype))
            ours.zero_grad(set_to_none=set_to_none)
        assert ours.explain().groups[0].grad_dtype == "f32"
        param = params[0]
        (param * 256).sum().backward()
        again = optim.SGD([param], lr=1.0)  # takes over the gradient, and its dtype
        (param * 1).sum().backward()
        before = param.tolist()
        again.step()
        assert again.state_dict()["state"][0]["master"].tolist() == [
            value - 257 for value in before
        ]


@case_on_2
def without_it_microbatches_are_rounded_as_torch_does(world: World) -> None:
    param = nn.Parameter(torch.zeros(70, dtype=torch.bfloat16))
    ours = optim.SGD([param], lr=1.0)
    for factor in (256.0, 1.0):
        (param * factor).sum().backward()
    ours.step()
    assert ours.state_dict()["state"][0]["master"].tolist() == [-256.0] * 70


@case_on_2
def gradients_have_the_dtype_that_the_parameter_says(world: World) -> None:
    params = parameters(torch.float32, torch.bfloat16)
    for param in params[::3]:
        param.grad_dtype = {4: torch.bfloat16, 2: torch.float32}[param.itemsize]
    ours, masters = both("adam", params)
    for step in range(5):
        give_gradients(world, params, step)
        ours.step()
        masters.step(world, params, step)
    check_masters(ours, params, masters)
    assert len(ours.explain().groups) == 4


@case
def a_sum_of_16_bits_does_not_overflow(world: World) -> None:
    for dtype in HALVES:
        param = nn.Parameter(torch.zeros(100, dtype=dtype))
        ours = optim.SGD([param], lr=2.0**-14, reduction="sum")
        param.grad = torch.full_like(param, 40960.0)
        ours.step()
        assert param.tolist() == [-2.5 * world.size] * 100


@case_on_3
def norm_is_clipped_over_all_dtypes(world: World) -> None:
    for max_norm, scale in itertools.product((0.1, 1e3), (1.0, 8.0)):
        params = parameters(*DTYPES)
        ours, masters = both("adamw", params, max_norm=max_norm)
        scaler = amp.GradScaler("cpu", init_scale=scale, enabled=scale != 1)
        for step in range(4):
            give_gradients(world, params, step)
            step_scaled(scaler, ours, params)
            grads = [
                mean([gradient(p, n, step, rank) for rank in range(world.size)])
                for n, p in enumerate(params)
            ]
            norm = float(torch.cat([g.double().reshape(-1) for g in grads]).norm())
            assert ours.total_norm == pytest.approx(norm, rel=1e-5)
            factor = min(max_norm / (norm + 1e-6), 1)
            masters.take([grad.double() * factor for grad in grads])
        check_masters(ours, params, masters)


def step_scaled(scaler: Any, ours: Any, params: Sequence[Any]) -> None:
    """Take a step with the gradients times the scale, as backward() would give them."""
    scale = scaler.scale(torch.ones(())).item()
    for param in params:
        param.grad.mul_(scale)
    scaler.step(ours)
    scaler.update()


@case_on_3
def nan_in_one_shard_skips_the_step_on_all_ranks(world: World) -> None:
    bad_rank = min(1, world.size - 1)
    for dtype, kind, numel in (
        (torch.bfloat16, amp.GradScaler, 1000),
        (torch.bfloat16, amp.GradScaler, 70),
        (torch.bfloat16, torch.amp.GradScaler, 70),
        (torch.float16, torch.amp.GradScaler, 1000),
        (torch.float16, amp.GradScaler, 70),
        (torch.float64, amp.GradScaler, 70),
    ):
        # with 70 elements, rank 0 has 64 of them, rank 1 has 6, rank 2 none
        params = [nn.Parameter(torch.ones(numel, dtype=dtype))]
        ours, masters = both("adam", params)
        scaler = kind("cpu", init_scale=16.0, growth_interval=1000)
        piece = -(-numel // world.size // 64) * 64 if numel > 70 else 64
        for step in range(9):
            before = bits(params), str(ours.state_dict())
            is_bad = step in (3, 6)
            give_gradients(world, params, step)
            if is_bad and world.rank == bad_rank:
                params[0].grad[min(bad_rank * piece + 2, numel - 1)] = float("nan")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's lowers the scale on one rank
                step_scaled(scaler, ours, params)
            assert ((bits(params), str(ours.state_dict())) == before) == is_bad
            if not is_bad:
                masters.step(world, params, step)
        lowers = kind is amp.GradScaler or world.rank == bad_rank
        assert scaler.get_scale() == (4.0 if lowers else 16.0)
        check_masters(ours, params, masters)
        assert ours.explain().num_calls == 1


@case_on_2
def scales_grow_together(world: World) -> None:
    params = parameters(*DTYPES)
    ours, masters = both("adam_l2", params)
    scaler = amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    for step in range(7):
        give_gradients(world, params, step)
        step_scaled(scaler, ours, params)
        masters.step(world, params, step)
    assert scaler.get_scale() == 32.0
    check_masters(ours, params, masters)


@case_on_2
def parameters_that_someone_wrote_are_taken_as_they_are(world: World) -> None:
    """Except by what rounding hides, where they are the rounded weights still."""
    for dtype, name in itertools.product(HALVES, ("adam", "sgd_l2")):
        model = nn.Sequential(nn.Linear(11, 13), nn.Linear(13, 2)).to(dtype)
        params = list(model.parameters())
        ours, masters = both(name, params)
        saved = copy.deepcopy(model.state_dict())
        for step in range(9):
            if step == 3:
                model.load_state_dict(saved)
            if step == 6:
                params[0].data[2:5, 1].fill_(0.25)
                params[3].data = params[3].data * 2
            if step in (3, 6):
                changed = 0
                for weight, param in zip(masters.weights, params, strict=True):
                    is_new = weight.to(dtype) != param
                    weight.data[is_new] = param.detach().float()[is_new]
                    changed += int(is_new.sum())
                assert changed > 2
                check_masters(ours, params, masters)
            give_gradients(world, params, step)
            ours.step()
            masters.step(world, params, step)
        check_masters(ours, params, masters, 1e-5)


@case
def missing_gradients_keep_weights_and_moments(world: World) -> None:
    params = parameters(torch.bfloat16, torch.float32)
    ours, masters = both("adam_l2", params)
    for step in range(12):
        has = [(step + number) % 3 != 0 for number in range(len(params))]
        before = bits(params)
        for number, param in enumerate(params):
            new = gradient(param, number, step, world.rank)
            param.grad = new if has[number] else None
        ours.step()
        masters.take(
            mean([gradient(p, n, step, r) for r in range(world.size)])
            if has[n]
            else None
            for n, p in enumerate(params)
        )
        after = bits(params)
        assert all(has[n] or after[n] == before[n] for n in range(len(params)))
    check_masters(ours, params, masters, 1e-5)
    check_moments(ours, masters)


@case_on_2
def groups_added_and_thawed(world: World) -> None:
    params = parameters(torch.bfloat16, torch.float64)
    late, frozen = params[-3:], params[1]
    frozen.requires_grad_(False)
    kinds = (optim.Adam, torch.optim.Adam)
    masters = Masters(params, lambda ps: ps)
    masters.weights[1].requires_grad_(False)
    ours, theirs = (
        kind(ps[:-3], lr=1e-2)
        for kind, ps in zip(kinds, (params, masters.weights), strict=True)
    )
    masters.optimizer = theirs
    for step in range(9):
        if step == 3:
            for each, ps in ((ours, late), (theirs, masters.weights[-3:])):
                each.add_param_group({"params": ps, "lr": 1e-3, "weight_decay": 0.1})
        if step == 6:
            frozen.requires_grad_(True)
            masters.weights[1].requires_grad_(True)
        taking = [
            (step >= 6 or number != 1) and (step >= 3 or number < len(params) - 3)
            for number in range(len(params))
        ]
        for number, param in enumerate(params):
            if taking[number]:
                param.grad = gradient(param, number, step, world.rank)
        ours.step()
        masters.take(
            mean([gradient(p, n, step, r) for r in range(world.size)])
            if taking[n]
            else None
            for n, p in enumerate(params)
        )
    check_masters(ours, params, masters)
    check_moments(ours, masters)
    assert [group.group for group in ours.explain().groups] == [0, 0, 1, 1]


@case_on_2
def state_goes_to_torch_and_back(world: World) -> None:
    for name in ("adam_amsgrad", "sgd_momentum"):
        params = parameters(*DTYPES)
        ours, masters = both(name, params)
        for step in range(5):
            give_gradients(world, params, step)
            ours.step()
            masters.step(world, params, step)
        kept = copy.deepcopy(ours.state_dict())
        # of torch's optimizer on 16-bit parameters: no master weights
        theirs = masters.optimizer.state_dict()
        again, _ = both(name, params)
        again.load_state_dict(theirs)
        check_moments(again, masters, 0.0)
        kind, options = OPTIONS[name]
        rounded = getattr(torch.optim, kind)(params, **options)
        rounded.load_state_dict(copy.deepcopy(kept))
        rounded.step()  # torch rounds the state; ours is there all the same
        again, _ = both(name, params)
        again.load_state_dict(rounded.state_dict())
        for number, param in enumerate(params):
            master = again.state_dict()["state"][number].get("master", param)
            assert torch.equal(master.to(param.dtype), param)


def saved_bits(ours: Any) -> list[list[list[int]]]:
    state = ours.state_dict()["state"]
    return [bits(state[number].values()) for number in sorted(state)]


@case
def a_checkpoint_of_2_ranks_goes_on_at_1_and_3_with_the_same_bits(world: World) -> None:
    path = CASES.folder / "mixed.pt"

    def go_on(params: Any, ours: Any, steps: range) -> None:
        for step in steps:
            for number, param in enumerate(params):  # the same on every rank
                param.grad = gradient(param, number, step, 0)
            ours.step()

    params = parameters(*HALVES, seed=world.size + world.rank)
    ours = optim.AdamW(
        [{"params": params[:5]}, {"params": params[5:], "lr": 1e-3}],
        lr=1e-2,
        amsgrad=True,
    )
    if world.size == 2:
        go_on(params, ours, range(5))
        saved = {"model": [p.detach().clone() for p in params]}
        saved["state"] = copy.deepcopy(ours.state_dict())
        go_on(params, ours, range(5, 10))
        if world.rank == 1:
            torch.save(saved | {"end": (bits(params), saved_bits(ours))}, path)
        return
    saved = torch.load(path, weights_only=True)
    ours.load_state_dict(saved["state"])  # before the model, or after: it is the same
    for param, value in zip(params, saved["model"], strict=True):
        param.data.copy_(value)
    go_on(params, ours, range(5, 10))
    assert (bits(params), saved_bits(ours)) == tuple(saved["end"])


@case_on_2
def hooks_may_change_a_state_before_it_is_loaded(world: World) -> None:
    params = parameters(torch.bfloat16)
    ours, _ = both("adam", params)
    give_gradients(world, params, 0)
    ours.step()
    kept = ours.state_dict()

    def hook(_: Any, given: dict[str, Any]) -> dict[str, Any]:
        state = {
            n: each | {"exp_avg": 3 + 1e-6 + 0 * each["exp_avg"]}
            for n, each in given["state"].items()
        }
        return given | {"state": state}

    ours.register_load_state_dict_pre_hook(hook)
    ours.load_state_dict(kept)
    moments = ours.state_dict()["state"][0]["exp_avg"]
    assert torch.equal(moments, torch.full((7, 9), 3 + 1e-6))


@case_on_3
def every_schedule_has_the_same_bits(world: World) -> None:
    found = []
    for schedule in (None, lambda program: program.schedule()):
        params = parameters(*DTYPES)
        ours, _ = both("adam_l2", params, schedule=schedule)
        for step in range(5):
            give_gradients(world, params, step)
            ours.step()
        found.append((bits(params), saved_bits(ours)))
        groups = ours.explain().groups
        assert [group.staged_bytes for group in groups] == [0] * len(groups)
        state_bytes = [group.state_bytes for group in groups]
        assert len(state_bytes) == len(DTYPES)
        numel = sum(p.numel() for p in params) // len(DTYPES)
        if schedule:
            assert state_bytes == [4 * 3 * numel] * 2 + [4 * 2 * numel, 8 * 2 * numel]
        elif world.size > 1:
            assert sum(state_bytes) < 48 * numel
    assert found[0] == found[1]


@case_on_2
def what_cannot_be_exchanged_is_refused(world: World) -> None:
    param = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    for wrong in (torch.int8, torch.complex64, "f32", torch.float8_e4m3fn):
        with pytest.raises(ValueError, match="grad_dtype"):
            optim.SGD([param], grad_dtype=wrong)
    ours = optim.SGD([param])
    param.grad = torch.ones_like(param)
    ours.step()
    param.grad = None
    param.data = param.data.float()
    with pytest.raises(UnsupportedError, match=r"float32(.|\n)*need: .*bfloat16"):
        ours.step()
    odd = nn.Parameter(torch.ones(3))
    odd.grad_dtype = torch.float8_e4m3fn
    with pytest.raises(UnsupportedError, match="float8"):
        optim.SGD([odd])


@case_on_2
def ranks_must_exchange_one_dtype(world: World) -> None:
    param = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    with pytest.raises(RanksDisagree, match="grad_dtype="):
        optim.SGD([param], grad_dtype=None if world.rank else torch.float32)
