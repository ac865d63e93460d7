"""What is Spark's and not BookKeeper's: sessions, Java, query plans, task errors and progress."""
