"""Collections, made beside bookies or by Spark."""
