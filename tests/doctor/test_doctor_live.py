"""The diagnosis of running stores: a real ZooKeeper and a real etcd, asked little and politely."""

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
from tests.doctor.diagnosed import diagnosed
from tests.servers.etcd import Etcd, running
from tests.servers.zookeeper import free_ports, write, writer

DATA = Path(__file__).parents[1] / "data"
SECRET = "hunter2-hunter2"
QUICK = StoreOptions(rate_limit=0)


def line(diagnosis: Diagnosis, name: str) -> AnswerLine:
    [found] = [each for each in diagnosis.lines if (each.topic, each.name) == ("store", name)]
    return found


def of_store(diagnosis: Diagnosis) -> int:
    """The exit code that comes from the store alone."""
    return Diagnosis(tuple(each for each in diagnosis.lines if each.topic == "store"), ()).exit_code


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


def test_a_zookeeper_that_lets_us_in_is_told_with_its_version_and_the_cost_of_a_scan(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    begun = time.monotonic()
    told = diagnosed(f"zk://{zookeeper.hosts}/ledgers", options=AuditOptions(rate_limit=20.0))
    assert time.monotonic() - begun > 1.0  # some fifty reads, the first two of which are free
    assert {each.state for each in told.lines if each.topic == "store"} == {AnswerState.OK}
    server = line(told, "server").said
    assert server.startswith(f"{zookeeper.hosts} answers in ")
    assert ", version 3." in server
    assert server.endswith(", standalone")
    assert line(told, "ledgers").said == (
        "70 ledgers: the two scans take 7 s or longer at 20 reads per second"
    )
    assert line(told, "clock").said == "no time in the store is ahead of this machine's clock"
    assert (of_store(told), told.exit_code) == (0, 3)  # no bookies were named


def test_a_suffix_that_the_store_denies_is_wrong_usage(zookeeper: EmbeddedZooKeeper) -> None:
    told = diagnosed(f"zk+flat://{zookeeper.hosts}/ledgers")
    found = line(told, "layout")
    assert (found.state, told.exit_code) == (AnswerState.FAIL, 2)
    assert "the URI says flat, but the LAYOUT znode says hierarchical" in found.said


def test_a_root_that_is_not_there_and_a_server_that_is_not_are_unreachable(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    told = diagnosed(f"zk://{zookeeper.hosts}/elsewhere")
    assert "there is no znode /elsewhere" in line(told, "access").said
    assert told.exit_code == 4
    (port,) = free_ports(1)
    told = diagnosed(f"zk://127.0.0.1:{port}/ledgers", options=AuditOptions(timeout=1.0))
    assert line(told, "server").state is AnswerState.WARN
    assert line(told, "access").state is AnswerState.FAIL
    assert told.exit_code == 4
    told = diagnosed(f"zk://127.0.0.1:{port};{zookeeper.hosts}/ledgers")
    assert [each.state for each in told.lines if each.name == "server"] == [AnswerState.WARN, AnswerState.OK]
    assert (of_store(told), told.exit_code) == (0, 3)  # no bookies were named


def test_a_zookeeper_where_reading_is_not_for_everybody(tmp_path: Path) -> None:
    own = make_digest_acl("auditor", SECRET, read=True)
    shutil.copytree(DATA / "interleaved-hier" / "zookeeper" / "version-2", tmp_path / "zk" / "version-2")
    with EmbeddedZooKeeper(tmp_path / "zk") as server, writer(server.hosts) as client:
        client.set_acls("/ledgers/cookies", [own])
        told = diagnosed(f"zk://{server.hosts}/ledgers")
        assert "/ledgers/cookies" in line(told, "rights").said
        assert told.exit_code == 3
        client.set_acls("/ledgers", [own])
        told = diagnosed(f"zk://{server.hosts}/ledgers")
        assert "not authorised to read /ledgers" in line(told, "access").said
        assert told.exit_code == 4
        file = tmp_path / "credentials.toml"
        file.write_text(f'[zookeeper.digest]\nuser = "auditor"\npassword = "{SECRET}"\n')
        file.chmod(0o600)
        told = diagnosed(f"zk://{server.hosts}/ledgers", options=AuditOptions(credentials=str(file)))
        assert line(told, "credentials").said == f"{file}: digest user auditor, without TLS"
        assert (of_store(told), told.exit_code) == (0, 3)  # no bookies were named
        assert SECRET not in str(told.to_json())
        file.write_text("[etcd.tls]\n")
        told = diagnosed(f"zk://{server.hosts}/ledgers", options=AuditOptions(credentials=str(file)))
        assert line(told, "credentials").state is AnswerState.WARN


def test_a_clock_that_is_behind_the_stores_is_told(
    zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditor.doctor.store.now_ms", lambda: 1_000_000_000_000)
    found = line(diagnosed(f"zk://{zookeeper.hosts}/ledgers"), "clock")
    assert (found.state, "ahead of this machine's clock" in found.said) == (AnswerState.WARN, True)


def test_an_etcd_that_lets_us_in_is_told_with_its_version(etcd: Etcd) -> None:
    told = diagnosed(f"etcd://{etcd.host}/bk/cluster1")
    assert ", version 3." in line(told, "server").said
    assert line(told, "layout").said == "the layout key says etcd"
    assert line(told, "clock").state is AnswerState.NOT_ASKED
    assert line(told, "latency").said.startswith("one read takes ")
    stored = etcd.ctl("get", "--prefix", "--keys-only", "/bk/cluster1/ledgers/").split()
    assert line(told, "ledgers").said.startswith(f"{len(stored)} ledgers: ")
    assert any("under-replication marks" in sentence for sentence in told.unseen_facts)
    assert (of_store(told), told.exit_code) == (0, 3)  # no bookies were named
    told = diagnosed(f"etcd://{etcd.host}/elsewhere")
    assert (line(told, "access").state, told.exit_code) == (AnswerState.FAIL, 4)


def test_etcd_asks_who_we_are(tmp_path: Path) -> None:
    with running(tmp_path / "etcd", saved=True) as server:
        server.enable_auth(SECRET)
        told = diagnosed(f"etcd://{server.host}/bk/cluster1")
        assert "not authorised" in line(told, "access").said
        assert told.exit_code == 4
        file = tmp_path / "credentials.toml"
        file.write_text(f'[etcd]\nuser = "root"\npassword = "{SECRET}"\n')
        file.chmod(0o600)
        told = diagnosed(f"etcd://{server.host}/bk/cluster1", options=AuditOptions(credentials=str(file)))
        assert line(told, "credentials").said == f"{file}: user root, without TLS"
        assert ", version 3." in line(told, "server").said
        assert (of_store(told), told.exit_code) == (0, 3)  # no bookies were named
        assert SECRET not in str(told.to_json())


def test_etcd_that_is_not_there_is_unreachable() -> None:
    (port,) = free_ports(1)
    told = diagnosed(f"etcd://127.0.0.1:{port}/bk", options=AuditOptions(timeout=1.0))
    assert line(told, "server").state is AnswerState.WARN
    assert (line(told, "access").state, told.exit_code) == (AnswerState.FAIL, 4)


def test_small_trees_are_counted_and_large_ones_estimated(tmp_path: Path) -> None:
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


def test_a_saved_store_is_not_read_to_count_it() -> None:
    with pytest.raises(UsageError, match="ledgers can be counted only in a running store"):
        count_ledgers("dump:///no/such/metadata.jsonl", LayoutKind.FLAT, QUICK)


def test_etcd_counts_every_bucket(tmp_path: Path) -> None:
    ids = [(bucket << 56) + 1 for bucket in range(etcd_keys.BUCKET_COUNT)] + [5, 6]
    with running(tmp_path) as server:
        server.load((f"/bk/{etcd_keys.to_path(LedgerId(id_))}", b"") for id_ in ids)
        found = count_ledgers(f"etcd://{server.host}/bk", LayoutKind.ETCD, QUICK)
    assert found == LedgerCount(len(ids), True)
