"""The examples of conf/ for schedulers: valid, safe, and true to the exit codes."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import kubernetes_validate
import pytest
import yaml

from auditor.cli import BUG_EXIT_CODE
from auditor.cli.audit import audit as audit_command
from auditor.model.options import AuditOptions
from auditor.model.report import (
    EXIT_CLEAN,
    EXIT_DAMAGED,
    EXIT_FOUND,
    EXIT_NOT_COVERED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)
from auditor.reports.forms import FORMS
from auditor.sources.metadata.credentials import CREDENTIALS_VARIABLE
from auditor.sources.metadata.uri import parse_metadata_uri
from tests.command_lines import taken

CONF = Path(__file__).parents[2] / "conf"
CODES = {EXIT_CLEAN, EXIT_FOUND, EXIT_USAGE, EXIT_NOT_COVERED, EXIT_UNREACHABLE, EXIT_DAMAGED, BUG_EXIT_CODE}
AGAIN = {EXIT_NOT_COVERED, EXIT_UNREACHABLE}


@pytest.fixture(scope="module")
def manifests() -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all((CONF / "kubernetes-cronjob.yaml").read_text())}


@pytest.fixture
def pod(manifests: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    [only] = pod["containers"]
    return dict(only)


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_kubernetes_takes_every_manifest(manifests: dict[str, Any], version: str) -> None:
    assert set(manifests) == {"ConfigMap", "PersistentVolumeClaim", "CronJob"}
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_slip_of_the_pen_would_not_be_taken(manifests: dict[str, Any]) -> None:
    slip = manifests["CronJob"] | {"spec": {**manifests["CronJob"]["spec"], "concurencyPolicy": "Forbid"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(slip, "1.37", strict=True)


def test_runs_do_not_overlap_and_only_what_may_pass_is_tried_again(manifests: dict[str, Any]) -> None:
    cron = manifests["CronJob"]["spec"]
    assert cron["concurrencyPolicy"] == "Forbid"
    job = cron["jobTemplate"]["spec"]
    [codes] = [rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    assert set(codes["values"]) == CODES - AGAIN - {EXIT_CLEAN}
    assert job["backoffLimit"] > 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # or podFailurePolicy is refused


def test_the_pod_may_write_its_runs_and_nothing_else(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/runs", "/scratch"}
    assert {mount["name"] for mount in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert {environment[name] for name in ("HOME", "TMPDIR", "SPARK_LOCAL_DIRS")} == {"/scratch"}


def test_who_the_audit_is_stays_in_a_secret_file(pod: dict[str, Any], container: dict[str, Any]) -> None:
    [secret] = [each["secret"] for each in pod["volumes"] if "secret" in each]
    assert secret["defaultMode"] & 0o007 == 0  # a file that others may read is refused
    [variable] = [each for each in container["env"] if each["name"] == CREDENTIALS_VARIABLE]
    assert variable["value"] == "/etc/bkaudit-credentials/credentials.toml"
    assert not [each for each in container["env"] if "secretKeyRef" in each.get("valueFrom", {})]


def test_the_options_and_the_uri_are_ones_that_the_program_takes(manifests: dict[str, Any]) -> None:
    data = manifests["ConfigMap"]["data"]
    AuditOptions(**tomllib.loads(data["audit.toml"]))
    assert len(parse_metadata_uri(data["metadata"]).hosts) == 3


def test_the_shell_of_the_pod_resumes_a_try_and_spares_a_finished_run(
    manifests: dict[str, Any], container: dict[str, Any], tmp_path: Path
) -> None:
    [script] = container["args"]
    bkaudit = tmp_path / "bkaudit"
    bkaudit.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    bkaudit.chmod(0o755)
    (tmp_path / "runs" / "bkaudit-1").mkdir(parents=True)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "JOB": "bkaudit-1",
        "METADATA": "zk://a;b/l",
        "PUSHGATEWAY": "",
        "KEEP": manifests["ConfigMap"]["data"]["keep"],
    }

    def given() -> list[str]:
        command = [*container["command"], re.sub('(?<=[ "])/runs', f"{tmp_path}/runs", script)]
        # Without a pushgateway nothing is pushed.
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.split()

    whole = given()
    arguments, pruning = whole[: whole.index("prune")], whole[whole.index("prune") :]
    assert pruning[:2] == ["prune", f"{tmp_path}/runs"]
    taken(pruning)
    forms = [after for option, after in pairwise(arguments) if option == "--format"]
    assert {form.partition("=")[0] for form in forms} <= set(FORMS)
    named = {option for parameter in audit_command.params for option in parameter.opts}
    assert {each for each in arguments if each.startswith("--")} <= named
    assert arguments[arguments.index("--metadata") + 1] == "zk://a;b/l"
    assert arguments[arguments.index("--out") + 1] == f"{tmp_path}/runs/bkaudit-1"
    (tmp_path / "runs" / "bkaudit-1" / "report.json").touch()
    assert given()[arguments.index("--out") + 1] == f"{tmp_path}/runs/bkaudit-1-again"


def test_every_file_that_the_options_name_is_there_in_the_pod(
    manifests: dict[str, Any], pod: dict[str, Any]
) -> None:
    [volume] = [each["configMap"] for each in pod["volumes"] if "configMap" in each]
    there = {f"/etc/bkaudit/{item['path']}" for item in volume["items"]}
    data = manifests["ConfigMap"]["data"]
    assert {item["key"] for item in volume["items"]} <= data.keys()
    named = {value for value in tomllib.loads(data["audit.toml"]).values() if str(value).startswith("/etc/")}
    assert named
    assert named <= there
    assert tomllib.loads(data["suppressions.toml"]) == {}


class TriedAgainError(Exception):
    pass


class FailedError(Exception):
    pass


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """conf/airflow_dag.py, imported with as much of Airflow as it uses."""
    made: list[dict[str, Any]] = []

    def decorator(**settings: Any) -> Any:
        made.append(settings)
        return lambda function: function if "schedule" in settings else lambda: 0

    exceptions = SimpleNamespace(AirflowException=TriedAgainError, AirflowFailException=FailedError)
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.exceptions", exceptions)
    monkeypatch.setitem(sys.modules, "airflow.sdk", SimpleNamespace(dag=decorator, task=decorator))
    spec = importlib.util.spec_from_file_location("airflow_dag", CONF / "airflow_dag.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.RUNS = tmp_path
    module.made = made
    return module


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_exit_code_has_its_word_in_airflow(dag: Any, code: int) -> None:
    dag.COMMAND = ["sh", "-c", f"exit {code}"]
    if code == EXIT_CLEAN:
        dag.run("night")
        return
    with pytest.raises(TriedAgainError if code in AGAIN else FailedError, match=f"exit code {code}"):
        dag.run("night")


def test_airflow_tries_again_one_run_at_a_time_and_never_writes_over_one(dag: Any, tmp_path: Path) -> None:
    [whole, task] = [next(each for each in dag.made if key in each) for key in ("schedule", "retries")]
    assert whole["max_active_runs"] == 1
    assert task["retries"] > 0
    assert dag.directory_of("night") == tmp_path / "night"
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "report.json").touch()
    assert dag.directory_of("night") == tmp_path / "night-again"


def test_airflow_prunes_whatever_the_night_found(dag: Any) -> None:
    [rule] = [each["trigger_rule"] for each in dag.made if "trigger_rule" in each]
    assert rule == "all_done"
    taken(["prune", str(dag.RUNS), *dag.KEEP, "--yes"])


def test_the_command_that_airflow_calls_is_one_that_the_program_takes(dag: Any, tmp_path: Path) -> None:
    told = tmp_path / "told"
    dag.COMMAND = [
        "sh",
        "-c",
        f'printf "%s\\n" "$@" > {told}; echo ${CREDENTIALS_VARIABLE} >> {told}',
        "bkaudit",
    ]
    dag.run("night")
    *arguments, credentials = told.read_text().splitlines()
    named = {option for parameter in audit_command.params for option in parameter.opts}
    assert {each for each in arguments if each.startswith("--")} <= named
    assert credentials == dag.CREDENTIALS
    assert not re.search("password|token", (CONF / "airflow_dag.py").read_text(), re.IGNORECASE)
