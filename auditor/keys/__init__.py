"""Paths and keys of ledgers in stores and on disk: from a ledger's id to its path or key, and back."""
