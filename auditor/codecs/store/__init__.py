"""What BookKeeper keeps in its metadata store beside ledgers."""
