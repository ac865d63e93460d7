"""Collections of bookies' directories, read on the bookies or by Spark."""
