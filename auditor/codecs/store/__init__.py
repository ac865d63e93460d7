"""Decoders of BookKeeper's records in its metadata store, except ledger metadata."""
