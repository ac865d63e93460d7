"""Comparison of two metadata stores, to find out whether one is a complete copy of the other."""
