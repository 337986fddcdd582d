"""Program to plan."""

from coconet.lower.lower import lower

__all__ = ["lower"]
