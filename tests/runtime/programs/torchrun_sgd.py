"""Started by torchrun: joins the world from its variables and takes a step."""

from __future__ import annotations

import numpy as np
import torch

import coconet as cc
from coconet.workloads.optimizers import sgd

torch.set_flush_denormal(True)  # a kernel must not inherit this
world = cc.init()
step = cc.compile(cc.library(sgd)["fused"])
g = torch.full((1000,), 1.0 + world.rank)
p = torch.ones(1000)
step(g, p, lr=1.0)
assert (p == 1 - (1 + world.size) / 2).all()

TINY = 71362  # the bits of 1e-40, which this process itself would flush to zero
tiny = np.full(1000, TINY, np.int32).view(np.float32)
zero = np.zeros(1000, np.float32)
step(tiny, zero, lr=1.0)
bits = set(zero.view(np.uint32).tolist())
assert bits == {TINY | 1 << 31}, bits
print(f"rank {world.rank} of {world.size} is right")
