"""A real systemd for a unit or two, in namespaces of its own: the machine sees one process that ends.

It is a user manager that root runs, so that it may switch users and mount like the system manager. It has
its own processes, mounts and control groups. It sees no process of the machine, and could end none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

SYSTEMD = "/lib/systemd/systemd"
LIMIT_S = 120.0
_GROUPS = Path("/sys/fs/cgroup")

# /run says that systemd is at work, else the manager does not start.
_START = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system {places}
mkdir -m 700 /run/user
mount -t proc proc /proc
{mounts}
env -i PATH=/usr/bin:/bin XDG_RUNTIME_DIR=/run/user HOME={home} \
  SYSTEMD_UNIT_PATH={units}: SYSTEMD_LOG_TARGET=console {systemd} --user
"""


def can_run_systemd() -> bool:
    """Return whether this process may make namespaces and control groups, and systemd is installed."""
    if os.geteuid() != 0 or not Path(SYSTEMD).exists() or shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/run"]
    return bool(_group_roots()) and subprocess.run(probe, capture_output=True, check=False).returncode == 0


def run_units(units: Path, mounts: Mapping[Path, Path], until: Callable[[], bool]) -> None:
    """Let systemd start the units that ``default.target`` of a directory wants, until a condition is true.

    ``mounts`` maps a directory or file of the machine to its replacement. Directories in /run are created for
    it. The units' time stamps are kept in ``units/home``, as a machine keeps them in /var/lib/systemd.

    Raises:
        AssertionError: the condition did not become true. The message has the output of systemd.
    """
    home = units / "home"
    home.mkdir(exist_ok=True)
    script = _START.format(
        places=" ".join(str(place) for place in mounts if place.parent == Path("/run")),
        mounts="\n".join(f"mount --bind {new} {place}" for place, new in mounts.items()),
        home=home,
        units=units,
        systemd=SYSTEMD,
    )
    groups = [root / f"bkaudit-test-{os.getpid()}" for root in _group_roots()]
    enter = "".join(f"mkdir {group}; echo $$ > {group}/cgroup.procs; " for group in groups)
    # Its processes end with the first of them, however that ends.
    start = f'{enter} exec unshare --fork --pid --kill-child=KILL --mount --uts --ipc sh -c "$0"'
    try:
        with (
            (units / "log").open("w+") as log,
            subprocess.Popen(
                ["sh", "-c", start, script], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            ) as process,
        ):
            try:
                end = time.monotonic() + LIMIT_S
                while not until():
                    log.seek(0)
                    assert process.poll() is None, log.read()
                    assert time.monotonic() < end, log.read()
                    time.sleep(0.1)
            finally:
                process.kill()
    finally:
        for group in groups:
            _remove(group)


def _group_roots() -> list[Path]:
    """Return the parent directories for control groups: the one tree, or each tree that systemd would use."""
    roots = [_GROUPS, *(_GROUPS / name for name in ("systemd", "unified", "pids", "memory", "cpu"))]
    return [root for root in roots if os.access(root / "cgroup.procs", os.W_OK)]


def _remove(group: Path) -> None:
    """Remove a group and the groups below it as soon as no process is in it."""
    end = time.monotonic() + 10
    while group.exists() and time.monotonic() < end:
        for child in sorted(group.glob("**/"), reverse=True):
            with suppress(OSError):  # somebody is still on the way out
                child.rmdir()
        time.sleep(0.05)
