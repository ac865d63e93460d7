"""Owners of ledgers (such as topics): the references to ledgers that applications keep in some store."""
