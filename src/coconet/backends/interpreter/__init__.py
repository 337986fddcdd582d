"""The interpreter as a backend: one process, no compiler."""

from coconet.backends.interpreter.step import InterpretedStep, without_compiler

__all__ = ["InterpretedStep", "without_compiler"]
