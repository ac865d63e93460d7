"""``jobs/audit.py`` with tasks that also read and compare small tables. Normally the driver does that."""

from __future__ import annotations

import pytest

from auditor.jobs.job import run_command
from auditor.spark import execution, query_plans

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query_plans, "TINY_BYTES", -1)
        patch.setattr(execution, "DRIVER_READ_BYTES", -1)
        run_command("audit")
