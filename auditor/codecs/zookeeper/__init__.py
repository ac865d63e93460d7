"""Decoders of ZooKeeper's own files and of their encodings."""
