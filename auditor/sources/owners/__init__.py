"""Owners of ledgers: references to ledgers that applications keep in the metadata store or another one."""
