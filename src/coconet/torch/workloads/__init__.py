"""What the optimizers compute, as programs over one flat tensor of N elements."""

from coconet.torch.workloads.adam import adam
from coconet.torch.workloads.gradient import MASTER, Variant, reduced
from coconet.torch.workloads.sgd import sgd

__all__ = ["MASTER", "Variant", "adam", "reduced", "sgd"]
