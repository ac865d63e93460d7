"""Decoders of Apache Pulsar's records of topics, cursors and schemas, and of the ledgers that
they refer to.
"""
