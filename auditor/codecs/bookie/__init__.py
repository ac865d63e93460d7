"""Formats of a bookie's files and of its wire protocol."""
