"""A small causal transformer over characters, of torch's own modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["CharModel", "loss_of"]

_functional: Any = functional  # torch annotates few parameters of it


class Block(nn.Module):
    """Attention to what came before, then two layers on each position."""

    def __init__(self, width: int, heads: int) -> None:
        """Make the layers; `heads` divides `width`."""
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return x [B, T, W] after this block."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x))
        split = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.view(split).permute(2, 0, 3, 1, 4)
        seen = _functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merge(seen.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm_mlp(x))


class CharModel(nn.Module):
    """Characters [B, T] to the logits of each next one [B, T, vocabulary]."""

    def __init__(
        self, *, vocabulary: int, context: int, layers: int, width: int, heads: int
    ) -> None:
        """Make the layers, with torch's default initialisation."""
        super().__init__()
        self.characters = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, codes: Tensor) -> Tensor:
        """Return the logits."""
        places = torch.arange(codes.shape[1])
        x = self.characters(codes) + self.positions(places)
        return self.head(self.norm(self.blocks(x)))


def loss_of(model: nn.Module, codes: Tensor, following: Tensor) -> Tensor:
    """Return the mean cross entropy of the characters that follow, in nats."""
    logits = model(codes)
    return _functional.cross_entropy(logits.flatten(0, 1), following.flatten())
