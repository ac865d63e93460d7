"""Bookies and ZooKeeper that accept tickets of a real KDC, and commands with and without a ticket.

Commands run in separate processes, in which the Python module kerberos is available.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.security import make_acl

from auditor.notebook.run import open_run
from tests.corpora.audited import FinishedRun
from tests.live.test_secured_bookies import Cluster, inventory, run_audit, start_cluster, without_ports
from tests.servers import kerberos
from tests.servers.bookies.jars import RELEASES
from tests.servers.bookies.secured import USER, Kind
from tests.servers.kerberos import REALM, Kdc
from tests.servers.zookeeper import ZooKeeperProcess, write, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGERS = {f"/bk/00/0000/L{number:04}": b"" for number in range(3)}


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with kerberos.running(tmp_path_factory.mktemp("kdc") / "kdc") as running:
        yield running


@pytest.fixture(scope="module", params=[RELEASES[0], RELEASES[-1]])
def cluster(
    request: pytest.FixtureRequest, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    yield from start_cluster(
        tmp_path_factory.mktemp(f"gssapi-{request.param}"), request.param, Kind.GSSAPI, kdc
    )


@pytest.fixture(scope="module")
def on_plain_bookies(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """Return the findings of an audit of bookies that require no login."""
    root = tmp_path_factory.mktemp("plain")
    [findings] = (
        without_ports(cluster, run_audit(cluster, spark, root / "audit"))
        for cluster in start_cluster(root / "cluster", RELEASES[-1], Kind.PLAIN)
    )
    return findings


@pytest.fixture(scope="module")
def zookeeper(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """Yield a server on which only the auditor's ticket may read the ledgers."""
    root = tmp_path_factory.mktemp("zookeeper")
    for principal in ("zookeeper/127.0.0.1", "auditor"):
        kdc.keytab(principal)
    jaas = root / "jaas.conf"
    jaas.write_text(kdc.jaas("Server", "zookeeper/127.0.0.1"))
    with ZooKeeperProcess(
        root / "server",
        ["authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"],
        {"java.security.auth.login.config": str(jaas), "java.security.krb5.conf": str(kdc.conf)},
    ) as running:
        with writer(running.hosts) as client:
            write(client, LEDGERS)
            for path in LEDGERS:
                client.set_acls(path, [make_acl("sasl", f"auditor@{REALM}", read=True)])
        yield running


def bkaudit(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from auditor.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)


def access(
    cluster: Cluster, environment: dict[str, str], credentials: str | None = None
) -> tuple[list[str], int]:
    """Return doctor's answers about access to the bookies, and its exit code."""
    file = cluster.security.credentials(credentials)
    arguments = ("--metadata", cluster.uri, "--bookies", "rpc:", "--credentials", file, "--format", "json")
    done = bkaudit(environment, "doctor", *arguments)
    lines: list[dict[str, Any]] = json.loads(done.stdout)["lines"]
    lines = [line for line in lines if line["topic"] == "bookies"]
    return [line["said"] for line in lines if line["name"] in ("access", "no access")], done.returncode


def test_auditor_with_a_ticket_is_served(cluster: Cluster, kdc: Kdc) -> None:
    lines, code = access(cluster, kdc.environment(USER))
    assert lines[0].startswith(
        "3 of 3 registered bookies answered a read, without TLS, with a login by GSSAPI"
    )
    assert (len(lines), code) == (1, 0)


def test_refused_login_is_reported_with_its_remedy(cluster: Cluster, kdc: Kdc) -> None:
    no_ticket, code = access(cluster, kdc.environment())
    assert code == 3
    assert "there is no ticket. Run kinit" in no_ticket[1]
    assert "see [bookies.sasl] of the credentials file" in no_ticket[1]
    stranger, code = access(cluster, kdc.environment("stranger"))
    assert code == 3
    assert "saslJaasClientAllowedIds" in stranger[1]
    service = '[bookies.sasl]\nmechanism = "GSSAPI"\nservice = "nothing"\n'
    unknown, code = access(cluster, kdc.environment(USER), service)
    assert code == 3
    assert "the KDC has no principal nothing/127.0.0.1" in unknown[1]
    nothing, code = access(cluster, kdc.environment(USER), "")
    assert code == 3
    assert "login required: the bookie requires a login by SASL" in nothing[1]


def test_audit_with_a_ticket_has_the_findings_of_plain_bookies(
    cluster: Cluster, on_plain_bookies: list[tuple[Any, ...]], kdc: Kdc, tmp_path: Path
) -> None:
    out, file = tmp_path / "run", cluster.security.credentials()
    sources = ("--bookies", str(inventory(cluster, tmp_path)), "--bookies", "rpc:")
    options = ("--grace", "0", "--timeout", "10", "--credentials", file, "--out", str(out))
    done = bkaudit(kdc.environment(USER), "audit", "--metadata", cluster.uri, *sources, *options)
    assert done.returncode == 1, done.stderr
    assert without_ports(cluster, FinishedRun(open_run(out).report, out)) == on_plain_bookies


def test_zookeeper_accepts_a_ticket_and_its_acls_name_the_principal(
    zookeeper: ZooKeeperProcess, kdc: Kdc, tmp_path: Path
) -> None:
    file = tmp_path / "credentials.toml"
    arguments = ("ledger", "list", "--metadata", f"zk+hierarchical://{zookeeper.hosts}/bk")
    for section in ("", f'principal = "auditor@{REALM}"\n'):
        file.write_text(f'[zookeeper.sasl]\nmechanism = "GSSAPI"\n{section}')
        done = bkaudit(kdc.environment("auditor"), *arguments, "--credentials", str(file))
        assert done.returncode == 0, done.stderr  # a ledger that may not be read is 3
        assert {json.loads(line)["ledger_id"] for line in done.stdout.splitlines()} == {"0", "1", "2"}


def test_kerberos_errors_of_a_zookeeper_login_are_reported(
    zookeeper: ZooKeeperProcess, kdc: Kdc, tmp_path: Path
) -> None:
    file = tmp_path / "credentials.toml"
    arguments = (
        "ledger",
        "list",
        "--metadata",
        f"zk+hierarchical://{zookeeper.hosts}/bk",
        "--credentials",
        str(file),
    )
    cases = (
        ("", kdc.environment(), "there is no ticket. Run kinit"),
        (f'principal = "auditor@{REALM}"\n', kdc.environment(), "there is no ticket"),
        ('service = "nothing"\n', kdc.environment("auditor"), "the KDC has no principal nothing/HOST"),
    )
    for section, environment, words in cases:
        file.write_text(f'[zookeeper.sasl]\nmechanism = "GSSAPI"\n{section}')
        done = bkaudit(environment, *arguments)
        assert done.returncode == 4, done
        assert f"ZooKeeper at {zookeeper.hosts}: Kerberos: " in done.stderr
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_expired_ticket_is_reported_as_expired(zookeeper: ZooKeeperProcess, kdc: Kdc, tmp_path: Path) -> None:
    import time

    file = tmp_path / "credentials.toml"
    file.write_text('[zookeeper.sasl]\nmechanism = "GSSAPI"\n')
    environment = kdc.environment("auditor", lifetime="1s")
    time.sleep(2)
    metadata = f"zk+hierarchical://{zookeeper.hosts}/bk"
    done = bkaudit(environment, "ledger", "list", "--metadata", metadata, "--credentials", str(file))
    assert done.returncode == 4
    assert "the ticket is expired; run kinit again" in done.stderr
