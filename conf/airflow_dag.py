"""A nightly audit in Airflow 3: one task, whose exit codes become success, an alert, or another try.

    0         success
    1         findings: failed at once, and told (`alert`); another try would find the same
    3, 4      not all could be looked at, or a source was not reachable: tried again, twice
    2, 5, 70  wrong usage, damage, a bug: failed at once

Copy it into the DAG folder and change the constants. The command must be where the worker runs: installed
there, or with spark-submit in its place (COMMAND below). Credentials come from the file that
BKAUDIT_CREDENTIALS names on the worker: no Airflow connection or variable holds them.
"""

from __future__ import annotations

import os
import re
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.exceptions import AirflowException, AirflowFailException
from airflow.sdk import dag, task

METADATA = "zk://zk1:2181;zk2:2181;zk3:2181/ledgers"
BOOKIES = "/collected"  # what bkaudit collect wrote beside each bookie
RUNS = Path("/audits/runs")  # side by side: each run is compared with the one before
CREDENTIALS = "/etc/bkaudit/credentials.toml"

# On a cluster: ["spark-submit", "--master", "yarn", "--properties-file", "/etc/bkaudit/spark-defaults.conf",
#                "--py-files", "/opt/bkaudit/auditor.zip", "/opt/bkaudit/jobs/audit.py"]
COMMAND = ["bkaudit", "audit"]

KEEP = ["--keep-last", "3", "--keep-daily", "14", "--keep-weekly", "8"]  # of old runs, after each night

FOUND = 1
# 3: not all of it could be decided; what is only suspected, the next run may decide.
# 4: a source was not reachable.
TRIED_AGAIN = (3, 4)


def alert(context: dict[str, Any]) -> None:
    """Tell somebody: replace it by what your installation uses (a mail, a pager, a chat)."""
    print(f"audit failed: {context.get('exception')}")


def directory_of(name: str) -> Path:
    """Where a run goes: an interrupted one goes on where it is, a finished one is never written over."""
    out = RUNS / name
    while (out / "report.json").exists():
        out = out.with_name(f"{out.name}-again")
    return out


def run(name: str) -> None:
    """Audit, and turn the exit code into Airflow's words."""
    out = directory_of(name)
    command = [
        *COMMAND,
        "--metadata",
        METADATA,
        "--bookies",
        BOOKIES,
        "--out",
        str(out),
        "--fail-on",
        "error",
    ]
    environment = {**os.environ, "BKAUDIT_CREDENTIALS": CREDENTIALS}
    code = subprocess.run(command, env=environment, check=False).returncode
    if code == 0:
        return
    if code in TRIED_AGAIN:
        raise AirflowException(
            f"the audit in {out} left something undecided (exit code {code}); it is tried again"
        )
    said = "found what needs a person" if code == FOUND else "could not be done"
    raise AirflowFailException(f"the audit in {out} {said} (exit code {code}): bkaudit report {out}")


@dag(
    schedule="17 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,  # a night that was missed cannot be audited afterwards
    max_active_runs=1,  # runs that overlap read the store twice as hard
    dagrun_timeout=timedelta(hours=8),
    tags=["bookkeeper"],
)
def bookkeeper_audit() -> None:
    """Audit the cluster once a night."""

    @task(retries=2, retry_delay=timedelta(minutes=30), on_failure_callback=alert)
    def audit(run_id: str | None = None) -> None:
        assert run_id is not None  # Airflow gives it: scheduled__2026-11-21T03:17:00+00:00
        run(re.sub(r"[^\w.-]", "_", run_id))

    @task(trigger_rule="all_done")  # whatever the audit found
    def prune() -> None:
        subprocess.run(["bkaudit", "prune", str(RUNS), *KEEP, "--yes"], check=True)

    audit() >> prune()


bookkeeper_audit()
