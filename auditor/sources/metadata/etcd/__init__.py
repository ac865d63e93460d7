"""Metadata in a running etcd, or in a snapshot of an etcd."""
