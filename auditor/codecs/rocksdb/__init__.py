"""RocksDB's logs and manifests, as far as needed to check whether they are complete."""
