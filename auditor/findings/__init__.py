"""Confirmation, numbering, suppression and comparison of the findings of checks."""
