"""Programs op by op on torch.distributed: any process group, any device."""

from coconet.backends.eager.run import BoundEager, EagerStep

__all__ = ["BoundEager", "EagerStep"]
