"""Sources of bookie data: bookies' directories, collections of their tables, and running bookies."""
