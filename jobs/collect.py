"""Collect bookie indexes under spark-submit: ``spark-submit jobs/collect.py --bookies PATH --out DIR``."""

from __future__ import annotations

from auditor.jobs.job import run_command

if __name__ == "__main__":
    run_command("collect")
