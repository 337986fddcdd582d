"""exp, log, .. in the C backend: the interpreter's bits, on values of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np

import coconet as cc
from coconet.interp import first_difference, run_program
from coconet.ops import elementwise_function
from coconet.plan.expansions import EXPANSIONS

dp = cc.Group("dp")
(N,) = cc.dims("N")
FLOATS = (cc.f32, cc.f64, cc.bf16, cc.f16)


def function(name: str, dtype: cc.DType) -> cc.Program:
    """One function of tensors, and of a scalar beside them."""
    arity = 2 if name == "pow" else 1
    xs = [cc.tensor(f"x{i}", dtype, (N,), cc.Replicated(), dp) for i in range(arity)]
    s = cc.scalar("s")
    call = elementwise_function(name)
    outputs = [call(*xs), xs[0] * call(*[s] * arity)]
    if name == "pow":
        outputs += [xs[0] ** s, s ** xs[0]]
    return cc.program(f"{name}_{dtype}", inputs=[*xs, s], outputs=outputs)


def softmax_of_gelu(dtype: cc.DType) -> cc.Program:
    """Several functions in one kernel behind an all-reduce."""
    g = cc.tensor("x0", dtype, (N,), cc.Local(), dp)
    s = cc.scalar("s")
    x = cc.gelu(cc.all_reduce(g, "mean"))
    gate = cc.sigmoid(x) * cc.tanh(x) + cc.silu(x) * cc.exp(-s)
    out = cc.log(1 + cc.exp(-abs(x))) + cc.gelu(gate, approximate="tanh")
    return cc.program("mixed", inputs=[g, s], outputs=[out, gate**2])


def values(dtype: cc.DType, seed: int) -> Any:
    """Special values, random bit patterns, and numbers of usual size."""
    rng = np.random.default_rng(seed)
    width = dtype.itemsize
    drawn = rng.integers(0, 256, 4000 * width).astype(np.uint8).view(dtype.numpy)
    usual = rng.normal(0, 3, 3000), rng.uniform(-800, 800, 1000), np.arange(-20.0, 20)
    special = [0.0, -0.0, 1, -1, 2, 0.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 3e-39]
    with np.errstate(all="ignore"):
        parts = [np.array(special), *usual]
        return rng.permutation(
            np.concatenate([drawn, *(p.astype(dtype.numpy) for p in parts)])
        )


def check_functions() -> list[str]:
    """Run on one rank: every function and dtype; returns what differs."""
    world = cc.init()
    made = [function(name, dtype) for name in sorted(EXPANSIONS) for dtype in FLOATS]
    made += [softmax_of_gelu(dtype) for dtype in FLOATS]
    wrong: list[str] = []
    for program in made:
        dtype = program.tensors[0].type.dtype
        given: dict[str, Any] = {
            tensor.name: [values(dtype, position)] * world.size
            for position, tensor in enumerate(program.tensors)
        }
        for s in (0.7, -1.3):
            sizes = {"N": given["x0"][0].size}
            need = run_program(program, world.size, sizes, {**given, "s": s}).outputs
            mine = {name: arrays[world.rank] for name, arrays in given.items()}
            returned = cc.compile(program)(**mine, s=s)
            names = [value.name for value in program.outputs]
            got = {n: (a,) for n, a in zip(names, returned, strict=True)}
            expected = {n: (arrays[world.rank],) for n, arrays in need.items()}
            found = first_difference(got, expected)
            if found:
                wrong.append(f"{program.name} {dtype} at {s}: {found}")
    return [*wrong, f"{len(made)} programs"]
