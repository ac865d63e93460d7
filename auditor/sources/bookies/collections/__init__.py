"""Collections: Parquet tables with the state of bookies' directories at the time when they were collected."""
