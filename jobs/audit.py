"""Run an audit under spark-submit: ``spark-submit jobs/audit.py --metadata URI --bookies PATH --out RUN``."""

from __future__ import annotations

from auditor.jobs.job import run_command

if __name__ == "__main__":
    run_command("audit")
