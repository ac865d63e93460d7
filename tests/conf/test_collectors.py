"""Collectors beside bookies, as systemd and Kubernetes read them themselves."""

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
from tests.servers.nobody import NOBODY, reachable
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


OLD_S = 4 * 86400


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A bookie's host: directories, the command, and collections of four days ago, its own and of others."""
    own = f"{os.uname().nodename}-20260101T000000Z"
    for name in ("mnt", "bin", *(f"lib/bkaudit/{name}" for name in (own, *others()))):
        (tmp_path / name).mkdir(parents=True)
    unpack_bookies("flat-v1", tmp_path / "mnt")
    for place in (tmp_path / "lib" / "bkaudit").iterdir():
        os.utime(place, (time.time() - OLD_S,) * 2)
    command = tmp_path / "bin" / "bkaudit"
    command.write_text(f'#!/bin/sh\nexec {Path(sys.executable).parent}/bkaudit "$@"\n')
    command.chmod(0o755)
    return tmp_path


def others() -> tuple[str, ...]:
    """Old collections of other hosts, one of which has a name that begins as this host's."""
    return "other-1", f"{os.uname().nodename}-2-20260101T000000Z"


def assert_collected(collections: Path, name: str) -> None:
    """One collection of this host, with ledgers in it; its old one has gone, and those of others have not."""
    there = {directory.name for directory in collections.iterdir() if directory.is_dir()}
    [made] = there - {*others()}
    assert there == {made, *others()}
    assert re.fullmatch(rf"{re.escape(name)}-2\d{{7}}T\d{{6}}Z", made)
    assert ds.dataset(collections / made / "availability", format="parquet").count_rows()


def test_the_lines_of_the_service_collect_and_take_old_collections_away(host: Path) -> None:
    name = os.uname().nodename
    lines = (CONF / "bkaudit-collect.service").read_text("utf-8")
    for line in re.findall("(?m)^ExecStart(?:Post)?=(.*)$", lines):
        line = re.sub("%(%|H)", lambda specifier: {"%": "%", "H": name}[specifier[1]], line)
        line = line.replace("/mnt/", f"{host}/mnt/").replace("/var/lib/", f"{host}/lib/")
        only = {"PATH": f"{host}/bin:/usr/bin:/bin"}
        done = subprocess.run(shlex.split(line), env=only, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert_collected(host / "lib" / "bkaudit", name)


def test_the_timer_begins_at_one_every_night() -> None:
    [calendar] = re.findall("(?m)^OnCalendar=(.*)$", (CONF / UNITS[1]).read_text("utf-8"))
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    command = [analyze, "calendar", "--base-time=2026-11-21 12:00:00 UTC", "--iterations=2", calendar]
    done = subprocess.run(
        command, env={"TZ": "UTC", "LC_ALL": "C"}, capture_output=True, text=True, check=True
    )
    times = re.findall(r"(?:Next elapse|Iter. #2): \w+ (.*)", done.stdout)
    assert times == ["2026-11-22 01:00:00 UTC", "2026-11-23 01:00:00 UTC"], done.stdout


if can_run_systemd():  # which takes root, so that it is not everywhere a test

    def test_a_real_systemd_makes_up_for_a_missed_night_as_the_bookies_user(host: Path) -> None:
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
        who = collections / "who"
        mounts = {
            Path("/mnt"): host / "mnt",
            Path("/var/lib"): host / "lib",
            Path("/usr/local/bin"): host / "bin",
            Path("/run/project"): ROOT,
            Path("/run/environment"): Path(sys.prefix),
            Path("/etc/passwd"): accounts(host),
        }
        run_units(units, mounts, lambda: who.exists() and who.read_text() != "")
        assert who.read_text() == "bookkeeper\n"
        [refused] = (collections / "said").read_text().splitlines()  # the collection had nothing to say
        assert refused.endswith("Read-only file system")
        assert_collected(collections, os.uname().nodename)


def accounts(host: Path) -> Path:
    """The machine's accounts and bookkeeper's, who owns what the host has, and may read the program."""
    readable = all(place.stat().st_mode & 0o001 for place in CONF.parents)
    number = NOBODY if readable else CONF.stat().st_uid
    reachable(host)
    for place in (host / "lib").rglob("*"):
        os.chown(place, number, number)
    passwd = host / "passwd"
    passwd.write_text(
        f"bookkeeper:x:{number}:{number}::/nonexistent:/bin/sh\n" + Path("/etc/passwd").read_text()
    )
    return passwd


def test_the_pod_collects_with_what_it_has_and_sleeps_until_it_is_told_to_end(
    host: Path, manifest: dict[str, Any]
) -> None:
    [container] = manifest["spec"]["template"]["spec"]["containers"]
    places = {each["mountPath"]: host / each["name"] for each in container["volumeMounts"]}
    places["/bookies"] = host / "mnt" / "bookies"
    (host / "scratch").mkdir()
    (host / "lib" / "bkaudit").rename(host / "collected")
    # The one sleep of the loop ends it, as a node does that is drained.
    (host / "bin" / "sleep").write_text(f'#!/bin/sh\necho "$@" > {host}/slept\nkill $PPID\n')
    (host / "bin" / "sleep").chmod(0o755)
    only = {"PATH": f"{host}/bin:/usr/bin:/bin"}
    for each in container["env"]:
        only[each["name"]] = os.uname().nodename if each["name"] == "NODE" else str(places[each["value"]])
    [script] = container["args"]
    for place, stand_in in places.items():
        script = re.sub(rf"(?<=[ \"]){place}(?=[ /])", str(stand_in), script)
    done = subprocess.run(
        [*container["command"], script], env=only, capture_output=True, text=True, check=False
    )
    assert (done.returncode, (host / "slept").read_text()) == (0, "86400\n"), done.stderr
    assert_collected(host / "collected", os.uname().nodename)
