"""The paper's programs, used by tests, docs and benchmarks."""
