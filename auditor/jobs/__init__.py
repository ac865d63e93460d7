"""Doors for spark-submit and for schedulers: ``python -m auditor.jobs.audit`` and its like."""
