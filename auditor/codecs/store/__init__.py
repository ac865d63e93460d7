"""BookKeeper's records in its metadata store, except those of ledgers."""
