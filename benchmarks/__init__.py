"""Benchmarks: figures beside each claim. Nothing here asserts a time."""
