"""What every rank of a world runs for test_optim: each case is one function."""

from __future__ import annotations

import copy
import gc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from coconet.errors import RanksDisagree, UnsupportedError
from coconet.runtime.world import World
from coconet.torch import amp, optim

from rank_cases import Cases  # isort: skip
from refusals import what_cannot_be_updated_is_refused  # isort: skip
from training import (  # isort: skip
    Odd,
    Reference,
    batches,
    bits,
    check_close,
    check_same_model,
    check_same_state,
    deep,
    loss_of,
    mlp,
    seeded,
    train,
)

CASES = Cases()
case = CASES.add
case_on_2 = partial(CASES.add, worlds=(2,))  # any world shows it
case_on_1_and_2 = partial(CASES.add, worlds=(1, 2))  # any peer shows it
case_on_1_and_3 = partial(CASES.add, worlds=(1, 3))  # mixed_cases has f32 on 2
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "adam": ("Adam", {"lr": 1e-2}),
    "adam_l2": ("Adam", {"lr": 1e-2, "weight_decay": 0.1, "betas": (0.8, 0.95)}),
    "adam_amsgrad": ("Adam", {"lr": 2e-2, "amsgrad": True, "eps": 1e-5}),
    "adam_maximize": ("Adam", {"maximize": True, "weight_decay": 0.1}),
    "adam_decoupled": ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 1e-2}),
    "adamw_all": ("AdamW", {"amsgrad": True, "maximize": True, "weight_decay": 0.2}),
    "adam_beta1_0": ("Adam", {"betas": (0.0, 0.9)}),
    "sgd": ("SGD", {"lr": 0.05}),
    "sgd_l2": ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "sgd_momentum": ("SGD", {"lr": 0.05, "momentum": 0.9}),
    "sgd_dampening": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5}),
    "sgd_nesterov": (
        "SGD",
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ),
    "sgd_maximize": ("SGD", {"lr": 1e-3, "momentum": 0.5, "maximize": True}),
}
EVERYWHERE = ("adam_amsgrad", "adamw_all", "sgd_l2", "sgd_nesterov")


def run_cases(folder: str) -> dict[str, str]:
    return CASES.run(folder)


def both(name: str, model: nn.Module, **extra: Any) -> tuple[Any, Reference]:
    kind, options = OPTIONS[name]
    reference = Reference(model, lambda ps: getattr(torch.optim, kind)(ps, **options))
    return getattr(optim, kind)(model.parameters(), **options, **extra), reference


def options_case(name: str) -> Callable[[World], None]:
    def run(world: World) -> None:
        for make in (Odd, deep if "adam" in name else mlp):
            model = seeded(make)
            ours, reference = both(name, model)
            decays = [
                torch.optim.lr_scheduler.ExponentialLR(each, 0.9)
                for each in (ours, reference.optimizer)
            ]
            for step in range(21):
                train(world, model, ours, reference, range(step, step + 1))
                for decay in decays:
                    decay.step()
            check_same_model(model, reference, tolerance=1e-5)
            check_same_state(ours, reference.optimizer)
            assert ours.explain().num_calls == 1

    run.__name__ = f"options_{name}"
    return run


for option in OPTIONS:
    # mixed_cases has those of EVERYWHERE on 2 ranks, for f32 among others
    case(options_case(option), (1, 3) if option in EVERYWHERE else (2,))


@case
def reduction_by_sum(world: World) -> None:
    model = seeded(mlp)
    ours, reference = both("sgd", model, reduction="sum")
    for step in range(20):
        data = batches(step, world.size)
        ours.zero_grad()
        loss_of(model, data[world.rank]).backward()
        ours.step()
        reference.step(data, divide=False)
    check_same_model(model, reference)


@case
def parameters_come_from_rank_0_bit_by_bit(world: World) -> None:
    special = torch.tensor(
        [0x80000000 - 2**32, 0x7FC12345, 0x7F800000, 1, 0xFF800001 - 2**32]
    )
    model = nn.Module()
    value = (
        special.to(torch.int32).view(torch.float32)
        if world.rank == 0
        else torch.ones(5)
    )
    model.weight = nn.Parameter(value)
    model.other = nn.Parameter(torch.full((3, 4), float(world.rank)))
    frozen = torch.full((5, 3), world.rank, dtype=torch.bfloat16).t()
    model.frozen = nn.Parameter(frozen.clone(), requires_grad=False)
    model.scalar = nn.Parameter(torch.tensor(world.rank), requires_grad=False)
    optim.SGD(model.parameters())
    assert bits(model) == [special.tolist(), [0] * 12, [0] * 15, [0]]


@case_on_1_and_2
def gradients_near_0_do_not_blow_up(world: World) -> None:
    model = nn.Linear(3, 3)
    nn.init.ones_(model.weight)
    nn.init.zeros_(model.bias)
    ours, reference = both("adam", model)
    for step in range(12):
        for each in (model, reference.model):
            for param in each.parameters():
                param.grad = torch.full_like(param, 0.0 if step < 5 else 1e-8)
        ours.step()
        reference.optimizer.step()
    check_same_model(model, reference)
    assert all(bool(p.isfinite().all()) for p in model.parameters())


@case_on_1_and_2
def norm_is_clipped_over_all_groups(world: World) -> None:
    for max_norm in (1e-3, 0.7, 1e6):
        model = seeded(deep)
        reference = Reference(model, lambda ps: ps)
        groups = [
            [
                {"params": list(m[:2].parameters())},
                {"params": m[2:].parameters(), "lr": 1e-3},
            ]
            for m in (model, reference.model)
        ]
        ours = optim.AdamW(groups[0], lr=1e-2, max_norm=max_norm)
        theirs = torch.optim.AdamW(groups[1], lr=1e-2)
        for step in range(20):
            data = batches(step, world.size)
            ours.zero_grad()
            (100 * loss_of(model, data[world.rank])).backward()
            ours.step()
            reference.reduce(data, lambda m, b: 100 * loss_of(m, b))
            norm = nn.utils.clip_grad_norm_(reference.model.parameters(), max_norm)
            theirs.step()
            assert ours.total_norm == pytest.approx(float(norm), rel=1e-4)
        check_same_model(model, reference, tolerance=2e-5)
        assert ours.explain().num_calls == 5
        assert "clipped" in str(ours.explain())


@case
def clipping_nan_gives_nan_everywhere(world: World) -> None:
    model = seeded(mlp)
    ours, _ = both("sgd", model, max_norm=1.0)
    loss_of(model, torch.ones(2, 48)).backward()
    if world.rank == world.size - 1:
        model[2].bias.grad[1] = float("nan")
    ours.step()
    assert all(bool(p.isnan().all()) for p in model.parameters())


@case
def dropped_gradients_are_copied_and_kept_ones_are_not(world: World) -> None:
    model = seeded(mlp)
    ours, reference = both("adam", model)
    nbytes = sum(p.numel() * 4 for p in model.parameters())
    train(world, model, ours, reference, range(3))
    assert ours.explain().groups[0].copied_bytes == nbytes
    train(world, model, ours, reference, range(3, 6), set_to_none=False)
    ours.zero_grad(set_to_none=False)
    train(world, model, ours, reference, range(6, 20), set_to_none=False)
    explained = ours.explain()
    assert explained.groups[0].copied_bytes == 0
    assert explained.groups[0].staged_bytes == 0
    assert "Fuse" in str(explained)
    check_same_model(model, reference)


@case
def microbatches_add_up(world: World) -> None:
    model = seeded(mlp)
    ours, reference = both("sgd", model)

    def loss(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        parts = batch.chunk(3)
        first = sum(net[0](part).square().mean() for part in parts[:2])
        return first + loss_of(net, parts[2])

    for step in range(20):
        data = batches(step, world.size)
        ours.zero_grad()
        parts = data[world.rank].chunk(3)
        for part in parts[:2]:
            model[0](part).square().mean().backward()
        loss_of(model, parts[2]).backward()  # the last layer is used only here
        ours.step()
        reference.step(data, loss=loss)
    check_same_model(model, reference)


@case_on_1_and_2
def big_and_small_microbatches_are_not_rounded(world: World) -> None:
    param = nn.Parameter(torch.zeros(70))
    ours = optim.SGD([param], lr=1.0)
    for factor in (256.0, 1.0):
        (param * factor).sum().backward()
    ours.step()
    assert param.tolist() == [-257.0] * 70


@case_on_1_and_2
def autograd_knows_that_parameters_changed(world: World) -> None:
    model = seeded(mlp)
    ours, _ = both("sgd", model)
    loss = loss_of(model, torch.ones(2, 48))
    loss.backward(retain_graph=True)
    version = model[0].weight._version
    ours.step()
    assert model[0].weight._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def routed(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Use layer 1 on batches whose number says so, layer 2 almost never."""
    router = float(batch[0, 0])
    out = net[0](batch)
    if router > 0.3:
        out = out + net[1](batch)
    if router > 50:
        out = out + net[2](batch)
    return (out - 1).square().mean()


def experts() -> nn.Module:
    return nn.ModuleList(nn.Linear(48, 40) for _ in range(3))


@case_on_1_and_3
def missing_gradients_count_as_zeros_and_all_missing_skip(world: World) -> None:
    for name in ("adam_l2", "adamw_all", "sgd_momentum", "sgd_nesterov"):
        model = seeded(experts)
        ours, reference = both(name, model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(world, model, ours, reference, range(12), routed)
            before = bits(model[2])
            train(world, model, ours, reference, range(12, 24), routed)
        assert bits(model[2]) == before
        assert all("count as zeros" in str(warning.message) for warning in caught)
        assert len(caught) == (world.size > 1 and len(caught))
        assert len(caught) <= 1
        check_same_model(model, reference, tolerance=1e-5)
        check_same_state(ours, reference.optimizer)
        numbers = ours.state_dict()["state"]
        assert 4 not in numbers


def a_gradient_missing_here_warns_once(world: World) -> None:
    model = seeded(experts)
    ours, reference = both("adam", model, max_norm=1e9)

    def loss(net: nn.Module, rank: int) -> torch.Tensor:
        out = net[0](torch.ones(48)) + (net[1](torch.ones(48)) if rank == 0 else 0)
        return out.square().sum()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(20):
            ours.zero_grad()
            loss(model, world.rank).backward()
            ours.step()
            reference.reduce(range(world.size), loss)
            reference.optimizer.step()
    assert len(caught) == (world.rank > 0)
    if caught:
        assert "2 of 6" in str(caught[0].message)
    check_same_model(model, reference)
    assert ours.explain().num_calls == 3  # the vote is not repeated


case(a_gradient_missing_here_warns_once, (2, 3))


@case_on_1_and_2
def steps_without_any_gradient_do_nothing(world: World) -> None:
    model = seeded(mlp)
    ours, reference = both("sgd_momentum", model)
    before = bits(model)
    for _ in range(3):
        ours.step()
    assert bits(model) == before
    train(world, model, ours, reference, range(4))
    ours.zero_grad()
    before = bits(model)
    ours.step()
    assert bits(model) == before
    train(world, model, ours, reference, range(4, 8))
    check_same_model(model, reference)


@case_on_1_and_2
def groups_frozen_and_thawed_parameters(world: World) -> None:
    model = seeded(lambda: nn.Sequential(*(nn.Linear(48, 48) for _ in range(4))))
    model[1].requires_grad_(False)
    reference = Reference(model, lambda ps: ps)
    pairs = [
        (model, optim.Adam),
        (reference.model, torch.optim.Adam),
    ]
    made = [
        kind(
            [
                {"params": net[0].parameters()},
                {"params": net[1:3].parameters(), "lr": 3e-3, "weight_decay": 0.1},
            ],
            lr=1e-2,
        )
        for net, kind in pairs
    ]
    ours, reference.optimizer = made
    train(world, model, ours, reference, range(7))
    assert ours.explain().num_frozen == 2
    for net, optimizer in zip((model, reference.model), made, strict=True):
        net[1].weight.requires_grad_(True)
        optimizer.add_param_group({"params": net[3].parameters(), "lr": 1e-4})
    train(world, model, ours, reference, range(7, 14))
    assert ours.explain().num_frozen == 1
    for net in (model, reference.model):
        net[1].requires_grad_(True)
        net[0].requires_grad_(False)
    train(world, model, ours, reference, range(14, 21))
    assert ours.explain().num_frozen == 0
    check_same_model(model, reference)
    check_same_state(ours, reference.optimizer)


@case_on_2
def options_change_on_the_way(world: World) -> None:
    model = seeded(mlp)
    ours, reference = both("sgd", model)
    for start, change in enumerate(
        (
            {"weight_decay": 0.1},
            {"momentum": 0.9},
            {"nesterov": True},
            {"maximize": True},
        )
    ):
        train(world, model, ours, reference, range(5 * start, 5 * start + 5))
        for each in (ours, reference.optimizer):
            each.param_groups[0].update(change)
    train(world, model, ours, reference, range(20, 25))
    check_same_model(model, reference, tolerance=1e-5)


@case_on_1_and_3
def state_is_torchs_both_ways(world: World) -> None:
    for name in ("adam_amsgrad", "adamw", "sgd_momentum"):
        model = seeded(Odd)
        ours, reference = both(name, model)
        train(world, model, ours, reference, range(10))
        given = copy.deepcopy(reference.optimizer.state_dict())
        again, _ = both(name, model)
        again.load_state_dict(given)
        check_same_state(again, reference.optimizer, 0.0)
        for each in (again, reference.optimizer):
            check_close(model.parameters(), reference.model.parameters(), 1e-5)
            each.zero_grad()
        kept = ours.state_dict()
        reference.optimizer.load_state_dict(copy.deepcopy(kept))
        ours.load_state_dict(kept)
        train(world, model, ours, reference, range(10, 20))
        check_same_model(model, reference, tolerance=1e-5)


@case
def one_rank_alone_reads_the_state(world: World) -> None:
    model = seeded(deep)
    ours, reference = both("adam", model)
    for step in range(6):
        train(world, model, ours, reference, range(step, step + 1))
        if world.rank == step % world.size:
            check_same_state(ours, reference.optimizer)


@case_on_1_and_2
def inf_skips_the_step_on_all_ranks(world: World) -> None:
    for kind in (torch.amp.GradScaler, amp.GradScaler):
        for unscales in (False, True):
            model = seeded(mlp)
            ours, reference = both("adam", model)
            scaler = kind("cpu", init_scale=1024.0, growth_interval=1000)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for step in range(20):
                    data = batches(step, world.size)
                    ours.zero_grad()
                    scaler.scale(loss_of(model, data[world.rank])).backward()
                    is_bad = step in (3, 9)
                    if is_bad and world.rank == world.size - 1:
                        model[0].weight.grad[2, 1] = float("inf")
                    before = bits(model)
                    if unscales:
                        scaler.unscale_(ours)
                    scaler.step(ours)
                    scaler.update()
                    assert (bits(model) == before) == is_bad
                    if not is_bad:
                        reference.step(data)
            check_same_model(model, reference)
            lowers = kind is amp.GradScaler or world.rank == world.size - 1
            assert scaler.get_scale() == (256.0 if lowers else 1024.0)
            assert len(caught) == (not lowers)


def disagreement_is_raised_on_all_ranks(world: World) -> None:
    model = seeded(mlp)
    ours, reference = both("adam", model)
    train(world, model, ours, reference, range(3))
    before = bits(model)
    ours.param_groups[0]["lr"] = 1e-2 * (1 + world.rank)
    loss_of(model, torch.ones(2, 48)).backward()
    with pytest.raises(RanksDisagree, match="lr"):
        ours.step()
    assert bits(model) == before
    ours.param_groups[0]["lr"] = 1e-2
    train(world, model, ours, reference, range(3, 6))
    check_same_model(model, reference)
    with pytest.raises(RanksDisagree, match="differ in parameters"):
        optim.SGD(nn.Linear(3, 2 + world.rank).parameters())


case(disagreement_is_raised_on_all_ranks, (2, 3))


@case_on_1_and_2
def gradients_and_parameters_may_be_replaced(world: World) -> None:
    model = seeded(mlp)
    ours, reference = both("sgd_momentum", model)
    for step in range(20):
        data = batches(step, world.size)

        def closure(batch: Any = data[world.rank], keep: Any = step % 2 == 1) -> Any:
            ours.zero_grad()
            loss = loss_of(model, batch)
            loss.backward(create_graph=keep)
            return loss

        if step % 3 == 0:
            for param in model.parameters():
                param.data = param.data.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of create_graph
            loss = ours.step(closure)
        assert loss.requires_grad
        for param in model.parameters():
            param.grad = param.grad.clone()
        reference.step(data)
    check_same_model(model, reference)


@case_on_1_and_2
def every_schedule_has_the_same_bits(world: World) -> None:
    found = []
    for schedule in (None, lambda program: program.schedule()):
        model = seeded(mlp)
        ours, reference = both("adam_l2", model, schedule=schedule)
        train(world, model, ours, reference, range(5))
        check_same_state(ours, reference.optimizer)
        found.append((bits(model), ours.explain()))
    (fused, one), (written, other) = found
    assert fused == written
    whole = other.groups[0].state_bytes
    assert whole == 2 * 4 * one.groups[0].num_elements
    assert one.groups[0].state_bytes <= whole
    assert (one.groups[0].state_bytes < whole) == (world.size > 1)
    assert other.groups[0].steps == ()


@case_on_1_and_2
def several_optimizers_take_turns_and_leave_nothing(world: World) -> None:
    model = seeded(mlp)
    ours, reference = both("adam", model)
    other_model = seeded(deep)
    other, other_reference = both("sgd", other_model)
    for step in range(5):
        train(world, model, ours, reference, range(step, step + 1))
        train(world, other_model, other, other_reference, range(step, step + 1))
    check_same_model(model, reference)
    check_same_model(other_model, other_reference)
    del ours
    gc.collect()
    assert not model[0].weight._post_accumulate_grad_hooks
    again, reference = both("adam", model)
    train(world, model, again, reference, range(5))
    check_same_model(model, reference)


case_on_1_and_2(what_cannot_be_updated_is_refused)


@case_on_1_and_2
def options_of_torch_are_taken_or_refused(world: World) -> None:
    model = seeded(mlp)
    for option in ("capturable", "differentiable"):
        with pytest.raises(UnsupportedError, match=option):
            optim.AdamW(model.parameters(), **{option: True})
        with pytest.raises(UnsupportedError, match=option):
            optim.SGD([{"params": model.parameters(), option: True}])
    for kind, theirs in (
        (optim.AdamW, torch.optim.AdamW),
        (optim.SGD, torch.optim.SGD),
    ):
        for options in ({"foreach": True}, {"fused": True}):
            model = seeded(mlp)
            reference = Reference(model, lambda ps, k=theirs, o=options: k(ps, **o))
            ours = kind(model.parameters(), **options)
            train(world, model, ours, reference, range(3))
            check_same_model(model, reference)
            check_same_state(ours, reference.optimizer)
    optimizer = optim.Adam(model[0].parameters())
    with pytest.raises(UnsupportedError, match="capturable"):
        optimizer.add_param_group({"params": model[2].weight, "capturable": True})
    assert len(optimizer.param_groups) == 1


@case
def a_checkpoint_of_2_ranks_goes_on_at_1_and_3(world: World) -> None:
    path = CASES.folder / "checkpoint.pt"
    model = nn.Sequential(nn.Linear(48, 21), nn.Tanh(), nn.Linear(21, 1))
    for param in model.parameters():
        nn.init.uniform_(param, -0.2, 0.2)  # differs between ranks
    nothing = nn.Parameter(torch.empty(0))
    groups = [
        {"params": model[0].parameters()},
        {"params": [*model[2].parameters(), nothing], "lr": 1e-3},
    ]
    ours = optim.AdamW(groups, lr=1e-2, amsgrad=True)

    def go_on(steps: range) -> None:
        for step in steps:
            ours.zero_grad()
            loss_of(model, batches(step, 1)[0]).backward()  # the same on every rank
            ours.step()

    if world.size == 2:
        go_on(range(10))
        saved = {"model": copy.deepcopy(model.state_dict()), "state": ours.state_dict()}
        go_on(range(10, 20))
        if world.rank == 1:
            torch.save(saved | {"end": list(model.parameters())}, path)
        return
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    ours.load_state_dict(saved["state"])
    go_on(range(10, 20))
    check_close(model.parameters(), saved["end"])
