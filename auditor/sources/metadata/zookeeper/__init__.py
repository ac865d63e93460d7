"""Metadata in a running ZooKeeper, or in the files of a ZooKeeper server."""
