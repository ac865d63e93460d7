"""Paths and keys of ledgers in stores and on disk, and their conversion from ledger ids and back."""
