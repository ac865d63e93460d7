"""The scheduler examples in conf/ are valid and safe, and handle the exit codes correctly."""

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
from tests.command_lines import parse_command_line

CONF = Path(__file__).parents[2] / "conf"
CODES = {EXIT_CLEAN, EXIT_FOUND, EXIT_USAGE, EXIT_NOT_COVERED, EXIT_UNREACHABLE, EXIT_DAMAGED, BUG_EXIT_CODE}
RETRY_CODES = {EXIT_NOT_COVERED, EXIT_UNREACHABLE}


@pytest.fixture(scope="module")
def manifests() -> dict[str, Any]:
    return {doc["kind"]: doc for doc in yaml.safe_load_all((CONF / "kubernetes-cronjob.yaml").read_text())}


@pytest.fixture
def pod(manifests: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    [only] = pod["containers"]
    return dict(only)


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_kubernetes_schema_accepts_every_manifest(manifests: dict[str, Any], version: str) -> None:
    assert set(manifests) == {"ConfigMap", "PersistentVolumeClaim", "CronJob"}
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_kubernetes_schema_rejects_a_misspelled_key(manifests: dict[str, Any]) -> None:
    slip = manifests["CronJob"] | {"spec": {**manifests["CronJob"]["spec"], "concurencyPolicy": "Forbid"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(slip, "1.37", strict=True)


def test_cron_job_forbids_overlap_and_retries_only_retryable_exit_codes(manifests: dict[str, Any]) -> None:
    cron = manifests["CronJob"]["spec"]
    assert cron["concurrencyPolicy"] == "Forbid"
    job = cron["jobTemplate"]["spec"]
    [codes] = [rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    assert set(codes["values"]) == CODES - RETRY_CODES - {EXIT_CLEAN}
    assert job["backoffLimit"] > 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # or podFailurePolicy is refused


def test_pod_can_write_only_runs_and_scratch(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/runs", "/scratch"}
    assert {mount["name"] for mount in container["volumeMounts"]} == {spec["name"] for spec in pod["volumes"]}
    environment = {spec["name"]: spec.get("value") for spec in container["env"]}
    assert {environment[name] for name in ("HOME", "TMPDIR", "SPARK_LOCAL_DIRS")} == {"/scratch"}


def test_credentials_come_only_from_a_secret_file(pod: dict[str, Any], container: dict[str, Any]) -> None:
    [secret] = [spec["secret"] for spec in pod["volumes"] if "secret" in spec]
    assert secret["defaultMode"] & 0o007 == 0  # a file that others may read is refused
    [variable] = [spec for spec in container["env"] if spec["name"] == CREDENTIALS_VARIABLE]
    assert variable["value"] == "/etc/bkaudit-credentials/credentials.toml"
    assert not [spec for spec in container["env"] if "secretKeyRef" in spec.get("valueFrom", {})]


def test_config_map_options_and_metadata_uri_are_valid(manifests: dict[str, Any]) -> None:
    data = manifests["ConfigMap"]["data"]
    AuditOptions(**tomllib.loads(data["audit.toml"]))
    assert len(parse_metadata_uri(data["metadata"]).hosts) == 3


def test_pod_script_resumes_an_unfinished_run_and_keeps_a_finished_run(
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

    def run_script() -> list[str]:
        command = [*container["command"], re.sub('(?<=[ "])/runs', f"{tmp_path}/runs", script)]
        # Without a pushgateway nothing is pushed.
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.split()

    whole = run_script()
    arguments, pruning = whole[: whole.index("prune")], whole[whole.index("prune") :]
    assert pruning[:2] == ["prune", f"{tmp_path}/runs"]
    parse_command_line(pruning)
    forms = [after for option, after in pairwise(arguments) if option == "--format"]
    assert {form.partition("=")[0] for form in forms} <= set(FORMS)
    valid_options = {option for parameter in audit_command.params for option in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= valid_options
    assert arguments[arguments.index("--metadata") + 1] == "zk://a;b/l"
    assert arguments[arguments.index("--out") + 1] == f"{tmp_path}/runs/bkaudit-1"
    (tmp_path / "runs" / "bkaudit-1" / "report.json").touch()
    assert run_script()[arguments.index("--out") + 1] == f"{tmp_path}/runs/bkaudit-1-again"


def test_every_file_in_the_options_is_mounted_in_the_pod(
    manifests: dict[str, Any], pod: dict[str, Any]
) -> None:
    [volume] = [spec["configMap"] for spec in pod["volumes"] if "configMap" in spec]
    mounted_paths = {f"/etc/bkaudit/{file['path']}" for file in volume["items"]}
    data = manifests["ConfigMap"]["data"]
    assert {file["key"] for file in volume["items"]} <= data.keys()
    paths = {value for value in tomllib.loads(data["audit.toml"]).values() if str(value).startswith("/etc/")}
    assert paths
    assert paths <= mounted_paths
    assert tomllib.loads(data["suppressions.toml"]) == {}


class TriedAgainError(Exception):
    pass


class FailedError(Exception):
    pass


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return conf/airflow_dag.py, imported with stubs of the parts of Airflow that it uses."""
    task_settings: list[dict[str, Any]] = []

    def decorator(**settings: Any) -> Any:
        task_settings.append(settings)
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
    module.made = task_settings
    return module


@pytest.mark.parametrize("code", sorted(CODES))
def test_airflow_retries_or_fails_according_to_the_exit_code(dag: Any, code: int) -> None:
    dag.COMMAND = ["sh", "-c", f"exit {code}"]
    if code == EXIT_CLEAN:
        dag.run("night")
        return
    with pytest.raises(TriedAgainError if code in RETRY_CODES else FailedError, match=f"exit code {code}"):
        dag.run("night")


def test_airflow_retries_one_run_at_a_time_and_keeps_a_finished_run(dag: Any, tmp_path: Path) -> None:
    [whole, task] = [next(kwargs for kwargs in dag.made if key in kwargs) for key in ("schedule", "retries")]
    assert whole["max_active_runs"] == 1
    assert task["retries"] > 0
    assert dag.directory_of("night") == tmp_path / "night"
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "report.json").touch()
    assert dag.directory_of("night") == tmp_path / "night-again"


def test_airflow_prunes_runs_after_every_outcome(dag: Any) -> None:
    [rule] = [kwargs["trigger_rule"] for kwargs in dag.made if "trigger_rule" in kwargs]
    assert rule == "all_done"
    parse_command_line(["prune", str(dag.RUNS), *dag.KEEP, "--yes"])


def test_airflow_command_has_only_options_that_audit_accepts(dag: Any, tmp_path: Path) -> None:
    output = tmp_path / "told"
    dag.COMMAND = [
        "sh",
        "-c",
        f'printf "%s\\n" "$@" > {output}; echo ${CREDENTIALS_VARIABLE} >> {output}',
        "bkaudit",
    ]
    dag.run("night")
    *arguments, credentials = output.read_text().splitlines()
    valid_options = {option for parameter in audit_command.params for option in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= valid_options
    assert credentials == dag.CREDENTIALS
    assert not re.search("password|token", (CONF / "airflow_dag.py").read_text(), re.IGNORECASE)
