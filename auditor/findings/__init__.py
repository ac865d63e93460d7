"""Confirmation, numbering, suppression and comparison of findings."""
