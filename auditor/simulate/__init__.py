"""Simulation of bookie failures on a finished run: the data that would be lost, computed without Spark."""
