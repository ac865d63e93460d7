"""Owners of ledgers: the applications' own references to ledgers, in the metadata store or another one."""
