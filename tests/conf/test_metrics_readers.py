"""Metrics readers: a real node_exporter on a directory, a real pushgateway fed by the CronJob's pod."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from auditor.model.report import Cluster
from auditor.reports import openmetrics
from tests.reports.samples import report
from tests.servers.etcd import free_port

CONF = Path(__file__).parents[2] / "conf"
LIMIT_S = 60
CLUSTER = "zk://h1:2181;h2:2181/ledgers"
"""Of a cluster without an instance id."""


@contextmanager
def serving(program: str, *arguments: str) -> Iterator[str]:
    """Yield the address of a program that serves ``/metrics`` on a free port until the block ends."""
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    address = f"127.0.0.1:{free_port()}"
    command = [program, f"--web.listen-address={address}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + LIMIT_S
            while process.poll() is None:
                try:
                    read_metrics(address)
                    break
                except OSError:
                    assert time.monotonic() < until, f"{program} does not serve"
                    time.sleep(0.1)
            assert process.poll() is None, f"{program} ended"
            yield address
        finally:
            process.terminate()


def read_metrics(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


def test_node_exporter_serves_every_sample(tmp_path: Path) -> None:
    text = openmetrics.render(report())
    (tmp_path / "bkaudit.prom").write_text(text)
    with serving(
        "prometheus-node-exporter",
        "--collector.disable-defaults",
        "--collector.textfile",
        f"--collector.textfile.directory={tmp_path}",
    ) as address:
        served = read_metrics(address)
    assert "node_textfile_scrape_error 0" in served
    names = {line.partition("{")[0].split()[0] for line in text.splitlines() if not line.startswith("#")}
    assert {name for name in names if f"\n{name}{{" not in served and f"\n{name} " not in served} == set()


@pytest.fixture
def script(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """Return the pod's command in its own directory, with a bkaudit that writes metrics and exits with 1."""
    manifests = yaml.safe_load_all((CONF / "kubernetes-cronjob.yaml").read_text())
    [cron] = [manifest for manifest in manifests if manifest["kind"] == "CronJob"]
    [container] = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    for name in ("runs", "scratch", "bin"):
        (tmp_path / name).mkdir()
    nameless = replace(report(), cluster=Cluster(None, CLUSTER, "flat"))
    (tmp_path / "given.prom").write_text(openmetrics.render(nameless))
    bkaudit = tmp_path / "bin" / "bkaudit"
    bkaudit.write_text(
        f'#!/bin/sh\n[ "$1" = audit ] || exec echo "$@"\n'
        f"cp {tmp_path}/given.prom {tmp_path}/scratch/bkaudit.prom\nexit 1\n"
    )
    bkaudit.chmod(0o755)
    [text] = container["args"]
    for name in ("runs", "scratch"):
        text = re.sub(rf"(?<=[ \"])/{name}(?=[ /])", f"{tmp_path}/{name}", text)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    return [*container["command"], text], {
        "PATH": path, "JOB": "bkaudit-1", "METADATA": "zk://a/ledgers", "KEEP": "--keep-last 3",
    }  # fmt: skip


def test_pushgateway_serves_the_metrics_that_the_pod_pushes(
    script: tuple[list[str], dict[str, str]], tmp_path: Path
) -> None:
    command, environment = script
    # Debian's keeps what it was given, and would serve what an earlier test pushed.
    with serving("prometheus-pushgateway", f"--persistence.file={tmp_path}/kept") as address:
        assert "bkaudit_" not in read_metrics(address)
        pushed = subprocess.run(
            command, env=environment | {"PUSHGATEWAY": f"http://{address}"}, capture_output=True, text=True
        )
        # Another cluster's do not take the place of these.
        (tmp_path / "given.prom").write_text(openmetrics.render(report()))
        (tmp_path / "runs" / "bkaudit-1").mkdir()
        subprocess.run(command, env=environment | {"PUSHGATEWAY": f"http://{address}"}, capture_output=True)
        served = read_metrics(address)
    assert (pushed.returncode, pushed.stderr) == (1, "")  # how the audit ended
    assert pushed.stdout == f"prune {tmp_path}/runs --conf /etc/bkaudit/audit.toml --keep-last 3 --yes\n"
    for cluster in (CLUSTER, report().cluster.name):
        assert f'bkaudit_run_complete{{cluster="{cluster}",' in served
    assert 'job="bkaudit"' in served


def test_unreachable_pushgateway_is_reported_and_keeps_the_exit_code(
    script: tuple[list[str], dict[str, str]],
) -> None:
    command, environment = script
    url = f"http://127.0.0.1:{free_port()}"
    ended = subprocess.run(
        command, env=environment | {"PUSHGATEWAY": url}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"the metrics did not reach {url}"


def test_audit_gets_sigterm_when_its_pod_ends(script: tuple[list[str], dict[str, str]]) -> None:
    command, environment = script
    bkaudit = Path(environment["PATH"].partition(":")[0], "bkaudit")
    bkaudit.write_text(
        '#!/bin/sh\n[ "$1" = audit ] || exit 0\n'
        'trap "echo told; exit 143" TERM\necho begun\nwhile :; do sleep 0.1; done\n'
    )
    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment | {"PUSHGATEWAY": ""}, **settings) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "begun\n"
        shell.send_signal(signal.SIGTERM)
        assert shell.communicate(timeout=60) == ("told\n", None)
    assert shell.returncode == 143


def test_pod_ended_right_at_its_start_exits(
    script: tuple[list[str], dict[str, str]],
) -> None:
    """The shell gets SIGTERM before it knows the process id of the audit."""
    (*shell, text), environment = script
    bkaudit = Path(environment["PATH"].partition(":")[0], "bkaudit")
    bkaudit.write_text("#!/bin/sh\nwhile :; do sleep 0.1; done\n")
    knows = "audit=$!\n"
    assert text.count(knows) == 1
    patched_text = text.replace(knows, f'kill -TERM "$$"\n{knows}')
    ended = subprocess.run(
        [*shell, patched_text], env=environment | {"PUSHGATEWAY": ""}, check=False, timeout=60
    )
    assert ended.returncode == 143
