"""Repair plans from a finished run: made, written as TOML, read and checked, without Spark."""
