"""Writers of collections: tables made from bookies' directories, read on the bookies or by Spark."""
