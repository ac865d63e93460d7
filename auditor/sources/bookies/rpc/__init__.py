"""Bookies that are asked over the wire."""
