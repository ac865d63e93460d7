"""Raw rows to typed DataFrames; damage is a column."""
