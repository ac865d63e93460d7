"""Where bookies' data comes from: directories, collections, and bookies themselves."""
