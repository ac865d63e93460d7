"""A report, drawn for its readers."""
