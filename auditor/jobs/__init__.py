"""Entry points for spark-submit and schedulers, such as ``python -m auditor.jobs.audit``."""
