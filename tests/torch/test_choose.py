"""What is not tuned needs no tuning: the fixed schedule is the best by the estimate."""

from __future__ import annotations

import pytest

from coconet.ir import bf16, f32
from coconet.lower import lower
from coconet.tuning.canonical import canonical
from coconet.tuning.cost import estimate, keep_best
from coconet.tuning.search import search

pytest.importorskip("torch")

from coconet.torch.choose import TUNED_FROM
from coconet.torch.schedule import fused, kept_in_pieces
from coconet.torch.workloads import Variant, adam, sgd

VARIANTS = (
    Variant(),
    Variant(dtype=bf16, grad_dtype=bf16),
    Variant(dtype=bf16, grad_dtype=f32, is_masked=True, is_scaled=True),
    Variant(is_reduced=True, is_scaled=True),
)
PROGRAMS = [
    *(adam(v, has_decay=True, is_decoupled=True, amsgrad=False) for v in VARIANTS),
    *(sgd(v, has_decay=False, has_momentum=True, nesterov=True) for v in VARIANTS),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_one_kernel_is_the_best_of_small_ones(program) -> None:
    found = search(program, slice_state=kept_in_pieces(program))
    usual = canonical(fused(program).schedule.result)
    for ranks in (2, 8):
        plans = [lower(schedule.result, ranks) for schedule in found.schedules]
        for numel in (1, 1000, TUNED_FROM):
            costs = [estimate(plan, ranks, {"N": numel}) for plan in plans]
            _, (best, _), *_ = keep_best(list(zip(found.schedules, costs, strict=True)))
            assert canonical(best.result) == usual
            assert min(costs, key=lambda cost: cost.seconds) is not costs[0]
