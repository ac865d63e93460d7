"""Confirm and number what the checks found."""
