"""Entry logs: the bytes of each ledger in each log, and the entries to which the indexes point."""
