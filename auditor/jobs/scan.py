"""A scan of the metadata tables as a module: ``python -m auditor.jobs.scan --metadata URI --out RUN``."""

from __future__ import annotations

from auditor.jobs.job import run_command

if __name__ == "__main__":
    run_command("scan")
