"""Servers that this package starts for its demonstration and its tests."""
