"""RocksDB's logs and manifests, to the extent that a check of their completeness needs."""
