"""Benchmarks: engines in processes of their own, timed in turns, results as JSON."""
