"""What both ranks run for test_optim where optimizers choose their schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from coconet.errors import RanksDisagree, ScheduleError
from coconet.runtime.world import World
from coconet.torch import choose, optim
from coconet.torch.choose import TUNED_FROM
from coconet.torch.schedule import kept_in_pieces
from coconet.torch.workloads import Variant, adam
from coconet.tuning import tune as tuner

from rank_cases import Cases  # isort: skip
from training import bits, mlp, seeded  # isort: skip

CASES = Cases()
BOX_S = 0.2  # every candidate has one turn all the same
SMALL = {"lr": 0.1}


def case(function: Callable[[World], None]) -> None:
    CASES.add(function, (2,))


def run_cases(folder: str) -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COCONET_CACHE", str(Path(folder) / "tuned"))
        return CASES.run(folder)


class Large(nn.Module):
    """A parameter that is large enough to tune, and one more."""

    def __init__(self, dtype: torch.dtype, numel: int = TUNED_FROM) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, numel).to(dtype))
        self.bias = nn.Parameter(torch.ones(7, dtype=dtype))


def step(world: World, model: nn.Module, optimizer: Any, steps: range) -> None:
    for number in steps:
        for param in model.parameters():
            scale = (world.rank + 1) * (number + 1)
            param.grad = torch.linspace(-1, scale, param.numel()).to(param.dtype)
        kept = [param.grad.clone() for param in model.parameters()]
        optimizer.step()
        pairs = zip(kept, model.parameters(), strict=True)
        assert all(torch.equal(grad, param.grad) for grad, param in pairs)


def why(optimizer: Any, group: int = 0) -> str:
    return optimizer.explain().groups[group].why


@contextmanager
def forbidden(owner: Any, name: str) -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError(f"{name} was called")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, refuse)
        yield


def same_bits(kind: str, dtype: torch.dtype, options: dict[str, Any]) -> Any:
    """Every way to choose a schedule gives the same bits, and says which it was."""

    def run(world: World) -> None:
        found: list[Any] = []

        def trained(begins: str, **choice: Any) -> Any:
            model = Large(dtype)
            optimizer = getattr(optim, kind)(model.parameters(), **options, **choice)
            step(world, model, optimizer, range(3))
            group = optimizer.explain().groups[0]
            assert group.why.startswith(begins), group.why
            assert optimizer.explain().num_calls == 1
            assert group.why in str(optimizer.explain())
            found.append(bits(model))
            return group

        fixed = trained("tune=False", tune=False)
        measured = trained("tuned at", tune_time_s=BOX_S)
        assert measured.report.sizes == {"N": TUNED_FROM + 7}
        reads_none = forbidden(tuner, "recall") if world.rank else nullcontext()
        with reads_none, forbidden(tuner, "Contest"):
            remembered = trained("remembered, tuned at")
        assert remembered.report == measured.report
        assert remembered.schedule == measured.schedule
        path = CASES.folder / f"{kind}-{dtype}-{world.rank}.json"
        path.write_text(measured.schedule.to_json())
        with forbidden(choose, "run_tuner"):
            given = trained("given by tune=", tune=measured.schedule)
            from_file = trained(f"given by tune={path}", tune=path)
            trained(f"given by tune={path}", tune=str(path))
        assert given.schedule == from_file.schedule == measured.schedule
        assert given.report is fixed.report is None
        assert all(each == found[0] for each in found)

    run.__name__ = f"same_bits_{kind}_{dtype}".replace("torch.", "")
    return run


# the cases below tune Adam in f32 too; each of these tunes, and so compiles, anew
case(same_bits("Adam", torch.bfloat16, {"lr": 0.01}))
case(same_bits("SGD", torch.float32, {"lr": 0.01, "momentum": 0.9}))


@case
def tuning_frees_its_memory(world: World) -> None:
    model = Large(torch.float32)
    optimizer = optim.AdamW(model.parameters(), tune_time_s=BOX_S)
    assert why(optimizer) == "not tuned before the first step"
    before = world.pool.nbytes
    step(world, model, optimizer, range(1))
    assert why(optimizer).startswith("tuned at")
    assert world.pool.nbytes <= before + (1 << 20)


@case
def small_groups_are_not_tuned(world: World) -> None:
    model = seeded(mlp)
    with forbidden(choose, "run_tuner"):
        optimizer = optim.Adam(model.parameters())
        for param in model.parameters():
            param.grad = torch.ones_like(param)
        optimizer.step()
    assert why(optimizer) == f"not tuned: fewer than {TUNED_FROM} elements"
    assert optimizer.explain().groups[0].report is None


@case
def time_is_bounded_over_all_groups(world: World) -> None:
    """What is too late is not tuned; what has the same program and size need not be."""
    models = [Large(torch.float32, TUNED_FROM << power) for power in (0, 1, 0)]
    groups = [{"params": model.parameters()} for model in models]
    optimizer = optim.Adam(groups, amsgrad=True, tune_time_s=0.01)
    for model in models:
        for param in model.parameters():
            param.grad = torch.ones_like(param)
    optimizer.step()
    assert why(optimizer, 0).startswith("tuned at")
    assert why(optimizer, 1) == "not tuned: tune_time_s=0.01 is spent"
    assert why(optimizer, 2) == why(optimizer, 0)
    with forbidden(choose, "run_tuner"):
        optimizer.step()


@case
def clipped_and_partial_steps_are_tuned_too(world: World) -> None:
    for is_partial in (False, True):
        found: list[Any] = []
        for choice in ({"tune": False}, {"tune_time_s": BOX_S}):
            model = Large(torch.float32)
            optimizer = optim.SGD(model.parameters(), lr=0.1, max_norm=0.5, **choice)
            model.weight.grad = torch.ones_like(model.weight)
            model.bias.grad = None if is_partial else torch.ones_like(model.bias)
            optimizer.step()
            group = optimizer.explain().groups[0]
            assert ("mask" in group.program) == is_partial
            assert (group.report is None) == (not found)
            found.append((bits(model), optimizer.total_norm))
        assert found[0] == found[1]


@case
def a_rank_with_news_ends_a_tuning_before_it_begins(world: World) -> None:
    for _ in range(2):  # the second takes no time for what the first has tuned
        model = Large(torch.float32)
        optimizer = optim.SGD(model.parameters(), lr=0.1, tune_time_s=BOX_S)
        step(world, model, optimizer, range(1))
    optimizer.param_groups[0]["weight_decay"] = 0.5  # another program
    before = model.bias[0].item()
    said = nullcontext()
    if world.rank:
        model.bias.grad = None  # this rank asks for a vote, the other begins to tune
        said = pytest.warns(UserWarning, match="count as zeros")
    with said:
        optimizer.step()
    assert why(optimizer).startswith("tuned at")
    mean = -1 / world.size  # of the first element
    assert model.bias[0].item() == pytest.approx(before - 0.1 * (mean + 0.5 * before))


@case
def a_schedule_is_taken_where_it_fits(world: World) -> None:
    """A step that it does not fit takes the fixed schedule, and says so."""
    found: list[Any] = []
    given = adam(Variant(), has_decay=False, is_decoupled=False, amsgrad=False)
    for tune in (False, choose.fused(given).schedule):
        model = Large(torch.float32)
        optimizer = optim.Adam(model.parameters(), tune=tune)
        step(world, model, optimizer, range(1))
        model.bias.grad = None
        optimizer.step()
        found.append((bits(model), why(optimizer)))
    assert found[0][0] == found[1][0]
    assert "tune= does not fit this program: " in found[1][1]


@case
def options_that_cannot_be_meant(world: World) -> None:
    model = seeded(mlp)
    for error, options in (
        *((TypeError, {"tune": tune}) for tune in (0, 1.5, None)),
        (FileNotFoundError, {"tune": "no such file.json"}),
        (IsADirectoryError, {"tune": CASES.folder}),
        (ValueError, {"tune_time_s": 0}),
        (TypeError, {"tune_time_s": True}),
        (TypeError, {"tune": b"{}", "schedule": choose.fused}),
    ):
        with pytest.raises(error):
            optim.SGD(model.parameters(), **SMALL, **options)
    path = CASES.folder / f"empty-{world.rank}.json"
    path.write_text("{}")
    with pytest.raises(TypeError, match="both give a schedule"):
        optim.SGD(model.parameters(), **SMALL, tune=path, schedule=choose.fused)
    optim.SGD(model.parameters(), **SMALL)


@case
def bad_files_are_refused_on_all_ranks(world: World) -> None:
    model = seeded(mlp)
    program = adam(Variant(), has_decay=False, is_decoupled=False, amsgrad=False)
    whole = program.schedule().schedule.to_json()
    fitting = choose.fused(program).schedule.to_json()
    amsgrad = adam(Variant(), has_decay=False, is_decoupled=False, amsgrad=True)
    path = CASES.folder / f"bad-{world.rank}.json"
    for kind, text, match in (
        ("Adam", "\0not JSON", "not a schedule in JSON"),
        ("Adam", whole, "keeps its state in pieces"),
        ("Adam", choose.fused(amsgrad).schedule.to_json(), "max_exp_avg_sq"),
        ("Adam", fitting.replace('"grad"', '"p"', 1), "split"),
        ("SGD", fitting, "for another program"),
        ("AdamW", fitting, "for another program"),
    ):
        path.write_text(text)
        with pytest.raises(ScheduleError, match=match):
            getattr(optim, kind)(model.parameters(), **SMALL, tune=path)
    assert kept_in_pieces(program) == ("exp_avg", "exp_avg_sq")
    path.write_text(fitting)
    optim.Adam(model.parameters(), tune=path)


@case
def ranks_that_choose_differently_hear_of_it(world: World) -> None:
    model = seeded(mlp)
    program = adam(Variant(), has_decay=False, is_decoupled=False, amsgrad=False)
    path = CASES.folder / "only-one.json"
    if world.rank == 0:
        path.write_text(choose.fused(program).schedule.to_json())
    for tune in (world.rank == 0, path if world.rank == 0 else False):
        with pytest.raises(RanksDisagree, match="differ in schedules"):
            optim.Adam(model.parameters(), tune=tune)
    error = FileNotFoundError if world.rank else RanksDisagree
    with pytest.raises(error, match="missing"):
        optim.Adam(model.parameters(), tune="missing" if world.rank else path)
    optim.Adam(model.parameters())
