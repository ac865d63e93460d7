"""Journals. They contain entries that may not be in the bookie's index yet."""
