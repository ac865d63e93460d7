"""Entry logs: the bytes that each holds of each ledger, and the entries to which the indexes point."""
