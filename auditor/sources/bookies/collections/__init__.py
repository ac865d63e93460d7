"""Collections: the tables of bookies' directories at one time, as Parquet."""
