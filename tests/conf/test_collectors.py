"""Collectors beside bookies, as systemd and Kubernetes read them themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from auditor.cli.collect import collect

CONF = Path(__file__).parents[2] / "conf"
UNITS = ("bkaudit-collect.service", "bkaudit-collect.timer")


def verify(*units: Path) -> subprocess.CompletedProcess[str]:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    command = [analyze, "verify", "--man=no", "--recursive-errors=no", *map(str, units)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_systemd_takes_the_units() -> None:
    done = verify(*(CONF / unit for unit in UNITS))
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_would_not_take_a_slip_of_the_pen(tmp_path: Path) -> None:
    for unit in UNITS:
        text = (CONF / unit).read_text("utf-8").replace("OnCalendar=*-*-* 01", "OnCalendar=*-*-* 61")
        (tmp_path / unit).write_text(text.replace("Type=oneshot", "Type=oneshut"))
    assert "oneshut" in verify(*(tmp_path / unit for unit in UNITS)).stderr


@pytest.fixture
def manifest() -> dict[str, Any]:
    [only] = yaml.safe_load_all((CONF / "kubernetes-collector.yaml").read_text("utf-8"))
    return dict(only)


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_kubernetes_takes_the_collector(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_collector_only_reads_what_is_the_bookies(manifest: dict[str, Any]) -> None:
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    [bookies] = [each for each in container["volumeMounts"] if each["name"] == "bookies"]
    assert bookies["readOnly"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.parametrize("name", ["bkaudit-collect.service", "kubernetes-collector.yaml"])
def test_collectors_call_the_command_as_it_is(name: str) -> None:
    [line] = [line for line in (CONF / name).read_text("utf-8").splitlines() if "bkaudit collect --" in line]
    named = {option for parameter in collect.params for option in parameter.opts}
    given = set(re.findall(r"--[a-z-]+", line))
    assert given
    assert given <= named
