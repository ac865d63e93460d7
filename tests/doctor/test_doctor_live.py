"""Diagnoses of running stores, a real ZooKeeper and a real etcd, with few and considerate requests."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.errors import UsageError
from auditor.keys import etcd as etcd_keys
from auditor.keys.ledger_path import HIERARCHICAL, LONG_HIERARCHICAL
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.ledger_id import LedgerId
from auditor.model.options import AuditOptions
from auditor.reports.doctor import AnswerLine, AnswerState, Diagnosis
from auditor.sources.metadata.store import LedgerCount, StoreOptions
from auditor.sources.metadata.stores import count_ledgers
from auditor.sources.metadata.zookeeper.live import MAX_SAMPLED_PATHS
from tests.doctor.diagnosed import diagnose
from tests.servers.etcd import Etcd, running
from tests.servers.zookeeper import free_ports, write, writer

DATA = Path(__file__).parents[1] / "data"
SECRET = "hunter2-hunter2"
QUICK = StoreOptions(rate_limit=0)


def line(diagnosis: Diagnosis, name: str) -> AnswerLine:
    [answer] = [row for row in diagnosis.lines if (row.topic, row.name) == ("store", name)]
    return answer


def store_exit_code(diagnosis: Diagnosis) -> int:
    """Return the exit code that the answers about the store alone give."""
    return Diagnosis(tuple(answer for answer in diagnosis.lines if answer.topic == "store"), ()).exit_code


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper")
    shutil.copytree(DATA / "interleaved-hier" / "zookeeper" / "version-2", folder / "version-2")
    with EmbeddedZooKeeper(folder) as server:
        yield server


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("etcd"), saved=True) as server:
        yield server


def test_readable_zookeeper_reports_its_version_and_the_duration_of_a_scan(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    begun = time.monotonic()
    diagnosis = diagnose(f"zk://{zookeeper.hosts}/ledgers", options=AuditOptions(rate_limit=20.0))
    assert time.monotonic() - begun > 1.0  # some fifty reads, the first two of which are free
    assert {answer.state for answer in diagnosis.lines if answer.topic == "store"} == {AnswerState.OK}
    server = line(diagnosis, "server").said
    assert server.startswith(f"{zookeeper.hosts} answers in ")
    assert ", version 3." in server
    assert server.endswith(", standalone")
    assert line(diagnosis, "ledgers").said == (
        "70 ledgers: the two scans take 7 s or longer at 20 reads per second"
    )
    assert line(diagnosis, "clock").said == "no time in the store is ahead of this machine's clock"
    assert (store_exit_code(diagnosis), diagnosis.exit_code) == (0, 3)  # no bookies were named


def test_layout_suffix_that_contradicts_the_store_is_a_usage_error(zookeeper: EmbeddedZooKeeper) -> None:
    diagnosis = diagnose(f"zk+flat://{zookeeper.hosts}/ledgers")
    answer = line(diagnosis, "layout")
    assert (answer.state, diagnosis.exit_code) == (AnswerState.FAIL, 2)
    assert "the URI says flat, but the LAYOUT znode says hierarchical" in answer.said


def test_missing_root_or_unreachable_server_ends_with_exit_code_4(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    report = diagnose(f"zk://{zookeeper.hosts}/elsewhere")
    assert "there is no znode /elsewhere" in line(report, "access").said
    assert report.exit_code == 4
    (port,) = free_ports(1)
    report = diagnose(f"zk://127.0.0.1:{port}/ledgers", options=AuditOptions(timeout=1.0))
    assert line(report, "server").state is AnswerState.WARN
    assert line(report, "access").state is AnswerState.FAIL
    assert report.exit_code == 4
    report = diagnose(f"zk://127.0.0.1:{port};{zookeeper.hosts}/ledgers")
    assert [row.state for row in report.lines if row.name == "server"] == [AnswerState.WARN, AnswerState.OK]
    assert (store_exit_code(report), report.exit_code) == (0, 3)  # no bookies were named


def test_zookeeper_with_acls_needs_credentials(tmp_path: Path) -> None:
    own = make_digest_acl("auditor", SECRET, read=True)
    shutil.copytree(DATA / "interleaved-hier" / "zookeeper" / "version-2", tmp_path / "zk" / "version-2")
    with EmbeddedZooKeeper(tmp_path / "zk") as server, writer(server.hosts) as client:
        client.set_acls("/ledgers/cookies", [own])
        diagnosis = diagnose(f"zk://{server.hosts}/ledgers")
        assert "/ledgers/cookies" in line(diagnosis, "rights").said
        assert diagnosis.exit_code == 3
        client.set_acls("/ledgers", [own])
        diagnosis = diagnose(f"zk://{server.hosts}/ledgers")
        assert "not authorised to read /ledgers" in line(diagnosis, "access").said
        assert diagnosis.exit_code == 4
        file = tmp_path / "credentials.toml"
        file.write_text(f'[zookeeper.digest]\nuser = "auditor"\npassword = "{SECRET}"\n')
        file.chmod(0o600)
        diagnosis = diagnose(f"zk://{server.hosts}/ledgers", options=AuditOptions(credentials=str(file)))
        assert line(diagnosis, "credentials").said == f"{file}: digest user auditor, without TLS"
        assert (store_exit_code(diagnosis), diagnosis.exit_code) == (0, 3)  # no bookies were named
        assert SECRET not in str(diagnosis.to_json())
        file.write_text("[etcd.tls]\n")
        diagnosis = diagnose(f"zk://{server.hosts}/ledgers", options=AuditOptions(credentials=str(file)))
        assert line(diagnosis, "credentials").state is AnswerState.WARN


def test_local_clock_behind_the_store_is_a_warning(
    zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.doctor.store.now_ms", lambda: 1_000_000_000_000)
    answer = line(diagnose(f"zk://{zookeeper.hosts}/ledgers"), "clock")
    assert (answer.state, "ahead of this machine's clock" in answer.said) == (AnswerState.WARN, True)


def test_readable_etcd_reports_its_version_latency_and_ledger_count(etcd: Etcd) -> None:
    diagnosis = diagnose(f"etcd://{etcd.host}/bk/cluster1")
    assert ", version 3." in line(diagnosis, "server").said
    assert line(diagnosis, "layout").said == "the layout key says etcd"
    assert line(diagnosis, "clock").state is AnswerState.NOT_ASKED
    assert line(diagnosis, "latency").said.startswith("one read takes ")
    stored = etcd.ctl("get", "--prefix", "--keys-only", "/bk/cluster1/ledgers/").split()
    assert line(diagnosis, "ledgers").said.startswith(f"{len(stored)} ledgers: ")
    assert any("under-replication marks" in sentence for sentence in diagnosis.unseen_facts)
    assert (store_exit_code(diagnosis), diagnosis.exit_code) == (0, 3)  # no bookies were named
    diagnosis = diagnose(f"etcd://{etcd.host}/elsewhere")
    assert (line(diagnosis, "access").state, diagnosis.exit_code) == (AnswerState.FAIL, 4)


def test_etcd_with_authentication_needs_credentials(tmp_path: Path) -> None:
    with running(tmp_path / "etcd", saved=True) as server:
        server.enable_auth(SECRET)
        report = diagnose(f"etcd://{server.host}/bk/cluster1")
        assert "not authorised" in line(report, "access").said
        assert report.exit_code == 4
        file = tmp_path / "credentials.toml"
        file.write_text(f'[etcd]\nuser = "root"\npassword = "{SECRET}"\n')
        file.chmod(0o600)
        report = diagnose(f"etcd://{server.host}/bk/cluster1", options=AuditOptions(credentials=str(file)))
        assert line(report, "credentials").said == f"{file}: user root, without TLS"
        assert ", version 3." in line(report, "server").said
        assert (store_exit_code(report), report.exit_code) == (0, 3)  # no bookies were named
        assert SECRET not in str(report.to_json())


def test_unreachable_etcd_ends_with_exit_code_4() -> None:
    (port,) = free_ports(1)
    diagnosis = diagnose(f"etcd://127.0.0.1:{port}/bk", options=AuditOptions(timeout=1.0))
    assert line(diagnosis, "server").state is AnswerState.WARN
    assert (line(diagnosis, "access").state, diagnosis.exit_code) == (AnswerState.FAIL, 4)


def test_small_trees_are_counted_exactly_and_large_trees_are_estimated(tmp_path: Path) -> None:
    few = [LedgerId(number).id for number in range(0, 300_000, 10_000)]
    many = [LedgerId(number).id for number in range(0, (MAX_SAMPLED_PATHS + 36) * 10_000, 10_000)]
    with EmbeddedZooKeeper(tmp_path) as server, writer(server.hosts) as client:
        write(client, {f"/few/{HIERARCHICAL.to_path(id_)}": b"" for id_ in few})
        write(client, {f"/few/{LONG_HIERARCHICAL.to_path(2**40)}": b"", "/few/cookies": b""})
        write(client, {f"/many/{HIERARCHICAL.to_path(id_)}": b"" for id_ in many})
        write(client, {"/flat/L0000000001": b"", "/flat/L0000000002": b"", "/flat/LAYOUT": b""})

        def counted(root: str, layout: LayoutKind) -> LedgerCount:
            return count_ledgers(f"zk://{server.hosts}/{root}", layout, QUICK)

        assert counted("few", LayoutKind.HIERARCHICAL) == LedgerCount(len(few) + 1, True)
        assert counted("few", LayoutKind.LONG_HIERARCHICAL) == LedgerCount(1, True)
        assert counted("many", LayoutKind.HIERARCHICAL) == LedgerCount(len(many), False)
        assert counted("flat", LayoutKind.FLAT) == LedgerCount(2, True)


def test_counting_ledgers_of_a_saved_store_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="ledgers can be counted only in a running store"):
        count_ledgers("dump:///no/such/metadata.jsonl", LayoutKind.FLAT, QUICK)


def test_etcd_ledger_count_covers_every_bucket(tmp_path: Path) -> None:
    ids = [(bucket << 56) + 1 for bucket in range(etcd_keys.BUCKET_COUNT)] + [5, 6]
    with running(tmp_path) as server:
        server.load((f"/bk/{etcd_keys.to_path(LedgerId(id_))}", b"") for id_ in ids)
        count = count_ledgers(f"etcd://{server.host}/bk", LayoutKind.ETCD, QUICK)
    assert count == LedgerCount(len(ids), True)
