"""Metadata in ZooKeeper: running, or in a server's own files."""
