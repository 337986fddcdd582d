"""Kernels made wrong on purpose: the comparison must notice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import coconet as cc
from coconet.backends.c import compile_plan
from coconet.interp import first_difference, random_arguments, run_program
from coconet.lower import lower
from coconet.plan import Apply, Plan, Tile
from coconet.workloads.optimizers import sgd


def _mutated(plan: Plan, old: str, new: str) -> Plan:
    def step(x: object) -> object:
        if isinstance(x, Apply) and x.primitive == old:
            return replace(x, primitive=new)
        return x

    body = tuple(
        replace(i, body=tuple(step(s) for s in i.body)) if isinstance(i, Tile) else i
        for i in plan.body
    )
    return replace(plan, body=body)


def check_mutants() -> dict[str, bool]:
    """Run on one rank; returns whether each mutant's result differs."""
    world = cc.init()
    good = lower(cc.library(sgd)["fused"].result, world.size)
    plans = {
        "sub for add": _mutated(good, "add", "sub"),
        "no mean": _mutated(good, "div", "mul"),
        "as it is": good,
    }
    found: dict[str, bool] = {}
    for name, plan in plans.items():
        arguments = random_arguments(sgd, world.size, {"N": 1000}, 1)
        need = run_program(sgd, world.size, {"N": 1000}, arguments).effects
        g, p = (arguments[x][world.rank].copy() for x in "gp")
        compile_plan(plan, world)(g, p, lr=arguments["lr"])
        expected = {"p": (np.asarray(need["p"][world.rank]),)}
        found[name] = first_difference({"p": (p,)}, expected) is not None
    return found
