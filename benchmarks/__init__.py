"""Benchmarks that measure the times and sizes which the documents state. No benchmark asserts a time."""
