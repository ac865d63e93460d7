"""Decoders of ledger metadata in all its formats, for single values and for whole batches."""
