"""Entry logs: the bytes of each ledger in each log, and the entries that the indexes point to."""
