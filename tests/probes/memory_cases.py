"""Tensors in all kinds of memory, of no elements, and of ever more of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from probes.cases import Cases
from probes.programs import (
    CUTS,
    collectives,
    collectives_need,
    every_dtype,
    one_update,
    schedules,
)
from probes.truth import FORMS, check, drawn, pieces, reduced, stretched

import coconet as cc
from coconet.backends.c.compile import _KEPT
from coconet.runtime.world import World

CASES = Cases()


@CASES.on(2)
def strided_tensors_are_reduced_and_updated(world: World) -> None:
    """NVIDIA/Megatron-LM#5337: of a transposed view, the unreduced input came back."""
    gs = [
        (np.arange(24, dtype=np.float32) + 100 * rank).reshape(2, 3, 4).transpose()
        for rank in range(world.size)
    ]
    total, before = reduced("sum", gs), drawn(cc.f32, (4, 3, 2), 1)
    for name, schedule in schedules(one_update(), 0, 1, 2, cc.ROWS(1)).items():
        step = cc.compile(schedule)
        for forms in product(("plain", *FORMS), FORMS):
            # the ranks need not have the same kind of memory
            g_form, p_form = forms[:: 1 - 2 * world.rank]
            g, p = FORMS[g_form](gs[world.rank]), FORMS[p_form](before)
            around = _memory_of(p).copy()
            doubled = step(g, p)
            what = f"{name}, g {g_form}, p {p_form}"
            check(f"{what}: p", p, before - total)
            check(f"{what}: result", doubled, total + total)
            check(f"{what}: g", g, gs[world.rank])
            p[...] = before
            check(f"{what}: beside p", _memory_of(p), around)


def _memory_of(array: Any) -> Any:
    """Return what an array lies in, and the elements between its own."""
    return np.asarray(array if array.base is None else array.base)


@CASES.on(2, 3)
def strided_tensors_through_every_collective(world: World) -> None:
    """pytorch/pytorch#192920, #159548, #24836, #73515: scatter, gather .. of views."""
    step = cc.compile(collectives())
    for sizes in ((2, 3, 4), (5, 1, 7), (3, 9, 8)):
        for seed, form in enumerate((*FORMS.values(), stretched)):
            _check_collectives(world, step, sizes, form, seed)


@CASES.on(2, 3)
def no_elements(world: World) -> None:
    """pytorch/gloo#179, pytorch/pytorch#85234, #140741: empty tensors crashed."""
    step = cc.compile(collectives())
    for sizes in ((0, 1, 1), (1, 0, 2), (3, 2, 0), (0, 0, 0), (1, 1, 1)):
        for form in FORMS.values():
            _check_collectives(world, step, sizes, form, 0)
    for name, schedule in schedules(one_update(), 1).items():
        step = cc.compile(schedule)
        for shape in ((0, 1, 1), (1, 0, 2)):
            g, p = np.ones(shape, np.float32), np.ones(shape, np.float32)
            check(name, step(g, p), np.ones(shape, np.float32))
    step = cc.compile(every_dtype())
    step(*(np.empty(0, b.dtype.numpy) for b in step.signature.tensors))


def _check_collectives(
    world: World, step: Any, shape: tuple[int, ...], form: Any, seed: int
) -> None:
    xs = [form(drawn(cc.f32, shape, seed, rank)) for rank in range(world.size)]
    whole = form(drawn(cc.f32, shape, seed, 99))
    parts = [form(pieces(whole, cut, world.size)[world.rank]) for cut in CUTS]
    sizes = dict(zip("ABC", shape, strict=True))
    named = {f"y{i}": part for i, part in enumerate(parts)}
    got = step.bind(sizes=sizes, x=xs[world.rank], r=whole, **named)()
    need = collectives_need(xs, whole, world.rank)
    for number, pair in enumerate(zip(got, need, strict=True)):
        check(f"output {number} of {shape}, {form.__name__}", *pair)


@CASES.on(3)
def sizes_that_grow_and_shrink(world: World) -> None:
    """sgl-project/sglang#24548: a tensor larger than the workspace crashed."""
    steps = {
        name: cc.compile(cc.library(one_update())[name])
        for name in ("as_written", "one_shot", "fused")
    }
    many = range(101, 101 + 2 * _KEPT)  # more than a step keeps bindings of
    for size in (100, 101, 500_009, *many, 100, 0, 1, 800_003, 101):
        shape = (1, size, 1)
        gs = [drawn(cc.f32, shape, size, rank) for rank in range(world.size)]
        total, before = reduced("sum", gs), drawn(cc.f32, shape, size, 99)
        for (name, step), form in product(steps.items(), ("plain", "symmetric")):
            p = FORMS[form](before)
            doubled = step(FORMS[form](gs[world.rank]), p)
            check(f"{name} {form} {size}: p", p, before - total)
            check(f"{name} {form} {size}: result", doubled, total + total)
