"""Scan only the metadata under spark-submit: ``spark-submit jobs/scan.py --metadata URI --out RUN``."""

from __future__ import annotations

from auditor.jobs.job import run_command

if __name__ == "__main__":
    run_command("scan")
