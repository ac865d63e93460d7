"""Where a ledger is kept, from its id and back."""
