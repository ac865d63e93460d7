"""Owners of ledgers: applications' references to ledgers, in the metadata store or in another store."""
