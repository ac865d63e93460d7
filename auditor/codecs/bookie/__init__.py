"""Formats of a bookie's files, and of the protocol between clients and bookies."""
