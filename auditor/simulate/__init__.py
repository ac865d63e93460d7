"""Losses of a finished run if some of its bookies fail, computed without Spark."""
