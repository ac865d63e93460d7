"""Whole audits with a password, a key and a login: no output, file or command line contains a secret.

The test searches the printed output and the command lines of all processes meanwhile. It also searches all
files below the directories of run, scratch, cache, logs and Spark's events (Parquet as rows).
"""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from auditor.codecs.bookie.entry import mac_key, master_key
from tests.servers.etcd import Certificates, Etcd, certificates, running
from tests.sources.bookie_corpora import unpack_bookies

LOGIN = "Zq7-login-Kx93"
LEDGERS = "golden"
"""The password of all ledgers of the corpus, in their metadata; and by it their master keys on the disks."""

SPARK_END_SECONDS = 60.0

CRASH = """
import sys
from auditor.cli import main
from auditor.sources.metadata.etcd import client

def ask(self, asked):
    inside = [getattr(each, "__dict__", each) for each in vars(self).values()]
    raise RuntimeError(f"{vars(self)!r} {inside!r}")

client.EtcdClient.ask = ask
main(sys.argv[1:])
"""


class CommandResult(NamedTuple):
    """A command's exit code and output, and the command lines that were seen while it ran."""

    code: int
    printed: bytes
    commands: set[bytes]


class Scene(NamedTuple):
    """A store that requires a login and a certificate, bookies, and a credentials file."""

    home: Path
    server: Etcd
    pem: Certificates
    arguments: tuple[str, ...]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("secrets")
    pem = certificates(home)
    bookies = unpack_bookies("etcd", home)
    with running(home / "etcd", tls=pem, saved=True) as server:
        server.enable_auth(LOGIN)
        file = home / "credentials.toml"
        file.touch(mode=0o600)
        file.write_text(
            f'[etcd]\nuser = "root"\npassword = "{LOGIN}"\n[etcd.tls]\nca = "{pem.ca}"\n'
            f'certificate = "{pem.client}"\nkey = "{pem.client_key}"\n[ledgers]\npassword = "{LEDGERS}"\n'
        )
        store = f"etcd://{server.host}/bk/cluster1"
        options = ("--metadata", store, "--bookies", str(bookies), "--credentials", str(file), "--entry-logs")
        yield Scene(home, server, pem, options)


def secrets(scene: Scene) -> list[bytes]:
    """Return the secrets, plain and in common encodings, and each line of the PEM key."""
    lines = [line for line in scene.pem.client_key.read_bytes().splitlines() if not line.startswith(b"-")]
    keys = [master_key(LEDGERS.encode()), mac_key(LEDGERS.encode())]
    plain = [LOGIN.encode(), LEDGERS.encode(), *keys]
    spelt = [way for secret in plain for way in (secret, secret.hex().encode(), base64.b64encode(secret))]
    return [*spelt, *(line for line in lines if len(line) > 20)]


def call(scene: Scene, command: Sequence[str]) -> CommandResult:
    work = scene.home / "work"
    for name in ("scratch", "cache", "conf", "events"):
        (work / name).mkdir(parents=True, exist_ok=True)
    events = f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir {work}/events\n"
    (work / "conf" / "spark-defaults.conf").write_text(events)
    places = {"TMPDIR": "scratch", "XDG_CACHE_HOME": "cache", "SPARK_CONF_DIR": "conf"}
    environment = os.environ | {name: str(work / folder) for name, folder in places.items()}
    command_lines: set[bytes] = set()
    with (scene.home / "printed").open("w+b") as printed:
        running = subprocess.Popen(command, stdout=printed, stderr=printed, env=environment, cwd=work)
        while running.poll() is None:
            # Path.glob asks for each file, and fails where a process ends meanwhile.
            for process in Path("/proc").iterdir():
                try:
                    command_lines.add((process / "cmdline").read_bytes())
                except OSError:
                    continue
            time.sleep(0.1)
        printed.seek(0)
        return CommandResult(running.returncode, printed.read(), command_lines)


def file_content(path: Path) -> bytes:
    """Return a file's content, with Parquet unpacked; empty for a file that Java deletes as it ends."""
    try:
        if path.suffix == ".parquet":
            return repr(pq.read_table(path).to_pylist()).encode()
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def assert_no_secrets(scene: Scene, result: CommandResult) -> None:
    """Assert that output, files and command lines have no secret. Command lines may have a plain word."""
    all_secrets = secrets(scene)
    assert not [secret for secret in all_secrets if secret in result.printed]
    until = time.monotonic() + SPARK_END_SECONDS
    while [*(scene.home / "work/events").rglob("*.inprogress*")] and time.monotonic() < until:
        time.sleep(0.2)  # Spark's process ends after the command
    # Not rglob, which fails at a directory that Java takes away meanwhile.
    work = [Path(top, name) for top, _, names in os.walk(scene.home / "work") for name in names]
    texts = {str(path): file_content(path) for path in work}
    assert not [(path, secret) for path, words in texts.items() for secret in all_secrets if secret in words]
    hidden = [secret for secret in all_secrets if secret != LEDGERS.encode()]
    own_commands = [line for line in result.commands if b"etcdctl" not in line]
    assert not [secret for secret in hidden if any(secret in line for line in own_commands)]


BKAUDIT = (sys.executable, "-c", "from auditor.cli import main; main()")


def test_audit_leaves_no_secret_in_output_files_or_command_lines(scene: Scene) -> None:
    out = scene.home / "work" / "run"
    result = call(scene, [*BKAUDIT, "audit", "-v", *scene.arguments, "--out", str(out)])
    assert result.code in (0, 1, 3), result.printed.decode()
    assert [*(out / "tables/ledgers").glob("*.parquet")]
    assert any((scene.home / "work/events").rglob("*")), "Spark wrote no events"
    assert_no_secrets(scene, result)


@pytest.mark.parametrize(
    ("credentials", "code"), [("wrong = 1\n", 2), ('[etcd]\nuser = "root"\npassword = "%s-x"\n', 4)]
)
def test_refusal_prints_no_secret(scene: Scene, credentials: str, code: int) -> None:
    file = scene.home / "refused.toml"
    file.write_text(credentials.replace("%s", LOGIN) + f'[ledgers]\npassword = "{LEDGERS}"\n')
    file.chmod(0o600)
    result = call(
        scene, [*BKAUDIT, "scan", *scene.arguments[:2], "--credentials", str(file), "--out", "refused"]
    )
    assert result.code == code, result.printed.decode()
    assert_no_secrets(scene, result)


def test_crash_report_has_the_error_and_no_secret(scene: Scene) -> None:
    options = (*scene.arguments[:2], *scene.arguments[4:6])
    result = call(scene, [sys.executable, "-c", CRASH, "scan", *options, "--out", "crash"])
    assert result.code == 70, result.printed.decode()
    assert b"RuntimeError" in result.printed
    assert_no_secrets(scene, result)


def test_credentials_file_that_others_may_read_is_refused(scene: Scene) -> None:
    file = Path(scene.arguments[5])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    result = call(scene, [*BKAUDIT, "scan", *scene.arguments[:2], *scene.arguments[4:6], "--out", "open"])
    file.chmod(0o600)
    assert result.code == 2
    assert b"other users may read this file" in result.printed
    assert_no_secrets(scene, result)
