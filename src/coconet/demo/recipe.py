"""What the demo runs, as one value that travels to the ranks."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Recipe"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The size of everything; the defaults are the demo.

    steps        of each optimizer
    warm         first steps whose times are not counted
    alone_every  how many steps lie between two timings of forward+backward alone
    batch        sequences per rank and step, of `context` characters
    has_torch    train a model; without it, update one parameter of so many `elements`
    """

    has_torch: bool = True
    steps: int = 300
    warm: int = 10
    alone_every: int = 3
    seed: int = 2022
    lr: float = 1e-3
    batch: int = 4
    context: int = 64
    layers: int = 4
    width: int = 144
    heads: int = 4
    text_bytes: int = 4_000_000
    elements: int = 1 << 18

    def is_timed_alone(self, step: int) -> bool:
        """Whether forward+backward alone is timed beside this step."""
        return step >= self.warm and (step - self.warm) % self.alone_every == 0
