"""The RocksDB databases of DbLedgerStorage."""
