"""Audits of one cluster again and again: the rounds, and the metrics that are served between them."""
