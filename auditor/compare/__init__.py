"""Comparison of two metadata stores: whether a copy is complete."""
