"""RocksDB's logs and manifests, as far as a check of their wholeness needs them."""
