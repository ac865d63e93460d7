"""An audit as a module: ``python -m auditor.jobs.audit --metadata URI --bookies PATH --out RUN``."""

from __future__ import annotations

from auditor.jobs.job import run_command

if __name__ == "__main__":
    run_command("audit")
