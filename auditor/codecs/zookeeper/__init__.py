"""ZooKeeper's own files and the encoding that they use."""
