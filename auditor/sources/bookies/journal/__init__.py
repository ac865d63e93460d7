"""Journals: what a bookie holds that need not be in its index yet."""
