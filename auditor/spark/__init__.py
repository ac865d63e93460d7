"""Use of Spark, independent of BookKeeper: sessions, Java, query plans, task errors and progress."""
