"""Repeated audits of one cluster, and the metrics that are served between them."""
