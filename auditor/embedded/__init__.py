"""Servers that this package starts itself, for its demonstration and its tests."""
