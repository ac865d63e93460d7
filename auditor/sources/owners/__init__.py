"""Owners of ledgers: references that applications keep, in the metadata's own store or in another one."""
