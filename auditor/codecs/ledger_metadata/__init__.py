"""Ledger metadata in all its formats: one value at a time, and whole batches."""
