"""A collection as a module: ``python -m auditor.jobs.collect --bookies PATH --out DIR``."""

from __future__ import annotations

from auditor.jobs.job import run_command

if __name__ == "__main__":
    run_command("collect")
