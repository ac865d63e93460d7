"""Renderers that turn a report into text, HTML, CSV, SARIF and the other forms."""
