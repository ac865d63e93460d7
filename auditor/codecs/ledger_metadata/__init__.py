"""Ledger metadata in all its formats: single values, and whole batches."""
