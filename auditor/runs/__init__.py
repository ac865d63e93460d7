"""Finished runs, read without Spark."""
