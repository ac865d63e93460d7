"""Bookies' entry logs: what each holds of which ledger, and where the indexes point into it."""
