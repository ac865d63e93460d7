"""Places of ledgers: from a ledger's id to its path or key, and back."""
