"""Spark without BookKeeper: sessions, Java, query plans, task errors and progress."""
