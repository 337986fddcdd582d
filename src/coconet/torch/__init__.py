"""PyTorch on coconet: `coconet.torch.optim` and `coconet.torch.amp`."""
