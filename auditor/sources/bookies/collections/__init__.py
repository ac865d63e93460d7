"""Collections: what stood in bookies' directories, as Parquet."""
