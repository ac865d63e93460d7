"""Metadata saved as JSON lines."""
