"""Metadata in etcd: running, or in a snapshot of it."""
