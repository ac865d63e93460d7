"""Audit Apache BookKeeper clusters from what they wrote: metadata and bookie indexes. Read only."""
