"""Collections. A collection contains the tables of bookies' directories at one time, as Parquet files."""
