"""Collectors beside bookies: systemd and Kubernetes themselves read their units and manifests."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kubernetes_validate
import pyarrow.dataset as ds
import pytest
import yaml

from auditor.cli.collect import collect
from tests.servers.nobody import NOBODY, make_reachable
from tests.servers.systemd import can_run_systemd, run_units
from tests.sources.bookie_corpora import unpack_bookies

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
UNITS = ("bkaudit-collect.service", "bkaudit-collect.timer")


def verify(*units: Path) -> subprocess.CompletedProcess[str]:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    command = [analyze, "verify", "--man=no", "--recursive-errors=no", *map(str, units)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_systemd_accepts_the_units() -> None:
    outcome = verify(*(CONF / unit for unit in UNITS))
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_systemd_reports_a_misspelled_setting(tmp_path: Path) -> None:
    for unit in UNITS:
        text = (CONF / unit).read_text("utf-8").replace("OnCalendar=*-*-* 01", "OnCalendar=*-*-* 61")
        (tmp_path / unit).write_text(text.replace("Type=oneshot", "Type=oneshut"))
    assert "oneshut" in verify(*(tmp_path / unit for unit in UNITS)).stderr


@pytest.fixture
def manifest() -> dict[str, Any]:
    [only] = yaml.safe_load_all((CONF / "kubernetes-collector.yaml").read_text("utf-8"))
    return dict(only)


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_kubernetes_accepts_the_collector(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_collector_mounts_the_bookies_read_only(manifest: dict[str, Any]) -> None:
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    [bookies] = [mount for mount in container["volumeMounts"] if mount["name"] == "bookies"]
    assert bookies["readOnly"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


@pytest.mark.parametrize("name", ["bkaudit-collect.service", "kubernetes-collector.yaml"])
def test_collector_files_use_existing_options(name: str) -> None:
    [line] = [line for line in (CONF / name).read_text("utf-8").splitlines() if "bkaudit collect --" in line]
    known_options = {option for parameter in collect.params for option in parameter.opts}
    used_options = set(re.findall(r"--[a-z-]+", line))
    assert used_options
    assert used_options <= known_options


OLD_S = 4 * 86400


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a bookie's host: directories, the command, and four-day-old collections, its own and others'."""
    own_collection = f"{os.uname().nodename}-20260101T000000Z"
    for name in ("mnt", "bin", *(f"lib/bkaudit/{name}" for name in (own_collection, *other_collections()))):
        (tmp_path / name).mkdir(parents=True)
    unpack_bookies("flat-v1", tmp_path / "mnt")
    for place in (tmp_path / "lib" / "bkaudit").iterdir():
        os.utime(place, (time.time() - OLD_S,) * 2)
    command = tmp_path / "bin" / "bkaudit"
    command.write_text(f'#!/bin/sh\nexec {Path(sys.executable).parent}/bkaudit "$@"\n')
    command.chmod(0o755)
    return tmp_path


def other_collections() -> tuple[str, ...]:
    """Return old collections of other hosts; one name begins like a name of this host's collections."""
    return "other-1", f"{os.uname().nodename}-2-20260101T000000Z"


def assert_collected(collections: Path, name: str) -> None:
    """Assert one new collection of this host with ledgers, its old one deleted, and those of others kept."""
    names = {directory.name for directory in collections.iterdir() if directory.is_dir()}
    [new_collection] = names - {*other_collections()}
    assert names == {new_collection, *other_collections()}
    assert re.fullmatch(rf"{re.escape(name)}-2\d{{7}}T\d{{6}}Z", new_collection)
    assert ds.dataset(collections / new_collection / "availability", format="parquet").count_rows()


def test_service_commands_collect_and_delete_old_collections(host: Path) -> None:
    name = os.uname().nodename
    lines = (CONF / "bkaudit-collect.service").read_text("utf-8")
    for line in re.findall("(?m)^ExecStart(?:Post)?=(.*)$", lines):
        line = re.sub("%(%|H)", lambda specifier: {"%": "%", "H": name}[specifier[1]], line)
        line = line.replace("/mnt/", f"{host}/mnt/").replace("/var/lib/", f"{host}/lib/")
        env = {"PATH": f"{host}/bin:/usr/bin:/bin"}
        outcome = subprocess.run(shlex.split(line), env=env, capture_output=True, text=True, check=False)
        assert outcome.returncode == 0, outcome.stderr
    assert_collected(host / "lib" / "bkaudit", name)


def test_timer_runs_at_one_o_clock_utc_every_night() -> None:
    [calendar] = re.findall("(?m)^OnCalendar=(.*)$", (CONF / UNITS[1]).read_text("utf-8"))
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    command = [analyze, "calendar", "--base-time=2026-11-21 12:00:00 UTC", "--iterations=2", calendar]
    outcome = subprocess.run(
        command, env={"TZ": "UTC", "LC_ALL": "C"}, capture_output=True, text=True, check=True
    )
    times = re.findall(r"(?:Next elapse|Iter. #2): \w+ (.*)", outcome.stdout)
    assert times == ["2026-11-22 01:00:00 UTC", "2026-11-23 01:00:00 UTC"], outcome.stdout


if can_run_systemd():  # which takes root, so that it is not everywhere a test

    def test_systemd_makes_up_a_missed_night_as_the_bookkeeper_user(host: Path) -> None:
        units, collections = host / "units", host / "lib" / "bkaudit"
        for unit in UNITS:
            (units / f"{unit}.d").mkdir(parents=True)
            shutil.copy(CONF / unit, units)
        (units / "default.target").write_text("[Unit]\nWants=bkaudit-collect.timer\n")
        (units / f"{UNITS[1]}.d" / "at_once.conf").write_text(
            "[Timer]\nRandomizedDelaySec=0\nAccuracySec=100ms\n"
        )
        # A user's manager has its StateDirectory elsewhere, so that this one would be read-only.
        (units / f"{UNITS[0]}.d" / "who.conf").write_text(
            "[Service]\nReadWritePaths=/var/lib/bkaudit\nStandardError=file:/var/lib/bkaudit/said\n"
            "ExecStartPost=-/bin/touch /mnt/bookies/written\n"
            "ExecStartPost=/bin/sh -c 'id -un > /var/lib/bkaudit/who'\n"
        )
        stamp = units / "home" / ".local/share/systemd/timers" / f"stamp-{UNITS[1]}"
        stamp.parent.mkdir(parents=True)
        stamp.touch()
        os.utime(stamp, (time.time() - 2 * 86400,) * 2)  # when it was last started
        # The service has a /tmp of its own, where this project and its environment may lie.
        (host / "bin" / "bkaudit").write_text(
            "#!/bin/sh\ncd /run/project && exec /run/environment/bin/python "
            "-c 'from auditor.cli import main; main()' \"$@\"\n"
        )
        user_file = collections / "who"
        mounts = {
            Path("/mnt"): host / "mnt",
            Path("/var/lib"): host / "lib",
            Path("/usr/local/bin"): host / "bin",
            Path("/run/project"): ROOT,
            Path("/run/environment"): Path(sys.prefix),
            Path("/etc/passwd"): accounts(host),
        }
        run_units(units, mounts, lambda: user_file.exists() and user_file.read_text() != "")
        assert user_file.read_text() == "bookkeeper\n"
        [refused] = (collections / "said").read_text().splitlines()  # the collection had nothing to say
        assert refused.endswith("Read-only file system")
        assert_collected(collections, os.uname().nodename)


def accounts(host: Path) -> Path:
    """Write the machine's accounts plus bookkeeper, which owns the host's files and may read the program."""
    readable = all(place.stat().st_mode & 0o001 for place in CONF.parents)
    number = NOBODY if readable else CONF.stat().st_uid
    make_reachable(host)
    for place in (host / "lib").rglob("*"):
        os.chown(place, number, number)
    passwd = host / "passwd"
    passwd.write_text(
        f"bookkeeper:x:{number}:{number}::/nonexistent:/bin/sh\n" + Path("/etc/passwd").read_text()
    )
    return passwd


def test_collector_pod_collects_and_then_sleeps_a_day(host: Path, manifest: dict[str, Any]) -> None:
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    places = {entry["mountPath"]: host / entry["name"] for entry in container["volumeMounts"]}
    places["/bookies"] = host / "mnt" / "bookies"
    (host / "scratch").mkdir()
    (host / "lib" / "bkaudit").rename(host / "collected")
    # The one sleep of the loop ends it, as a node does that is drained.
    (host / "bin" / "sleep").write_text(f'#!/bin/sh\necho "$@" > {host}/slept\nkill $PPID\n')
    (host / "bin" / "sleep").chmod(0o755)
    env = {"PATH": f"{host}/bin:/usr/bin:/bin"}
    for entry in container["env"]:
        env[entry["name"]] = os.uname().nodename if entry["name"] == "NODE" else str(places[entry["value"]])
    [script] = container["args"]
    for place, stand_in in places.items():
        script = re.sub(rf"(?<=[ \"]){place}(?=[ /])", str(stand_in), script)
    outcome = subprocess.run(
        [*container["command"], script], env=env, capture_output=True, text=True, check=False
    )
    assert (outcome.returncode, (host / "slept").read_text()) == (0, "86400\n"), outcome.stderr
    assert_collected(host / "collected", os.uname().nodename)
