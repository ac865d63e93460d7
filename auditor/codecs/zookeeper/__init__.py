"""ZooKeeper's own files and their encoding."""
