"""What an operation costs, counted, not timed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """Per rank: arithmetic operations, bytes of memory touched, bytes from or to peers.

    flops, memory_bytes and wire_bytes are counts; steps is rounds of communication.
    """

    flops: float = 0.0
    memory_bytes: float = 0.0
    wire_bytes: float = 0.0
    steps: int = 0

    def __add__(self, other: Work) -> Work:
        """Add part by part."""
        return Work(
            self.flops + other.flops,
            self.memory_bytes + other.memory_bytes,
            self.wire_bytes + other.wire_bytes,
            self.steps + other.steps,
        )
