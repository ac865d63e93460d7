"""Code about Spark, not BookKeeper: sessions, Java, query plans, task errors and progress."""
