"""Metadata in a running ZooKeeper, or in a server's own files."""
