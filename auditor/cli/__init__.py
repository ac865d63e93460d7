"""The bkaudit command."""
