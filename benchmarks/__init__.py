"""Benchmarks that measure the times and sizes stated in the documents. None fails because of a time."""
