"""``jobs/audit.py``, with small tables read and compared by tasks too: else the driver does it all."""

from __future__ import annotations

from auditor.jobs.job import run_command
from tests.killed.victims import large_plans

if __name__ == "__main__":
    with large_plans():
        run_command("audit")
