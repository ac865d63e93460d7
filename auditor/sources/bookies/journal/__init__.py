"""Journals: entries of a bookie that may not be in its index yet."""
