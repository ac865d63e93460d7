"""A real Oxia: trees, sessions, notifications, leader changes, certificates, tokens, many records."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from auditor.errors import StoreError
from auditor.sources.metadata.oxia.client import OxiaClient
from auditor.sources.metadata.oxia.questions import ChildRecords
from auditor.sources.metadata.store import LedgerChanges, StoreOptions, Tree, WatchableStore, tree_of
from auditor.sources.metadata.stores import check_reachable, count_ledgers, open_store, probe_servers
from tests.servers.certificates import Certificates, certificates
from tests.servers.issuer import AUDIENCE, running_issuer
from tests.servers.oxia import OTHER_PROGRAM, Oxia, running, running_cluster
from tests.sources.metadata.oxia.test_live import LAYOUT, LOCK, MARK, read
from tests.sources.owners.pulsar_stores import etcd_dump, owners, znodes

OPTIONS = StoreOptions(rate_limit=0, timeout_s=10)
LEDGER_COUNT = 100_000


def values() -> dict[str, bytes]:
    """Return the corpus's values by path, with an added mark and a long id."""
    node_values = {node.path: node.data for node in znodes("managed-ledgers", "schemas", "ledgers")}
    return node_values | {
        MARK: b'replica: "b1:3181"\nctime: 5\n',
        "/ledgers/000/0000/0050/0000/L0000": b"long",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oxia]:
    with running(tmp_path_factory.mktemp("oxia") / "server", shards=3) as oxia:
        oxia.load(values().items())
        oxia.load([(LOCK, b"bookieId: h\n"), ("/ledgersX/00/0000/L0001", b"no")])
        yield oxia


def test_each_tree_contains_its_paths(server: Oxia) -> None:
    below = {
        path: data
        for path, data in (values() | {LOCK: b"bookieId: h\n"}).items()
        if path.startswith("/ledgers/")
    }
    with closing(open_store(server.uri, OPTIONS)) as store:
        for tree in (Tree.LEDGERS, Tree.MARKS):
            expected = {path: data for path, data in below.items() if tree_of(path[9:]) is tree and data}
            assert {path: data for path, data in read(store, tree).items() if data} == expected
        cluster = store.cluster()
        own = {path: data for path, data in below.items() if tree_of(path[9:]) is None and data}
        assert {node.path: node.data for node in cluster.nodes.values() if node.data} == own
        assert all(node.ctime > 1_700_000_000_000 for node in cluster.nodes.values())
        assert cluster.gaps == ()


def test_owners_equal_those_of_zookeeper(server: Oxia, tmp_path: Path) -> None:
    owner_rows = [
        sorted(
            (row["path"] or "", row["status"], row["kind"] or "", row["ledger_id"] or 0)
            for row in owners(uri)
        )
        for uri in (f"pulsar:{server.uri}", f"pulsar:dump://{etcd_dump(tmp_path / 'owners.jsonl')}")
    ]
    assert owner_rows[0] == owner_rows[1]
    assert len(owner_rows[0]) > 150


def test_the_first_session_of_a_shard_makes_its_records_ephemeral(tmp_path: Path) -> None:
    with running(tmp_path / "oxia") as oxia:
        sessions = oxia.open_sessions()
        assert sessions == {0: 0}
        oxia.load([("/ledgers/cookies/b:1", b"c")])
        oxia.load([("/ledgers/available/b:1", b"")], sessions)
        with closing(open_store(oxia.uri, OPTIONS)) as store:
            nodes = store.cluster().nodes
    assert {name: node.ephemeral_owner for name, node in nodes.items() if name.endswith("b:1")} == {
        "cookies/b:1": 0,
        "available/b:1": 1,
    }


def test_changed_ledgers_are_reported(server: Oxia) -> None:
    server.load([("/ledgers/11/0000/L0001", b"a"), ("/ledgers/11/0000/L0002", b"a")])
    with closing(open_store(server.uri, OPTIONS)) as store:
        assert isinstance(store, WatchableStore)
        store.watch_ledgers()
        assert store.changed_ledgers() == LedgerChanges()
        store.watch_ledgers()
        server.load([("/ledgers/11/0000/L0003", b"b")])
        server.delete("/ledgers/11/0000/L0001")
        moves = store.changed_ledgers()
        assert moves.unknown_reason is None
        assert {"/ledgers/11/0000/L0001", "/ledgers/11/0000/L0003"} <= {*moves.paths}
        assert "/ledgers/11/0000/L0002" not in moves.paths
        rows = [
            path
            for part in store.parts_of_paths(moves.paths, 2)
            for batch in store.read(part)
            for path in batch.paths
        ]
        assert "/ledgers/11/0000/L0003" in rows
        assert "/ledgers/11/0000/L0001" not in rows


def test_changes_are_unknown_without_notifications(tmp_path: Path) -> None:
    with running(tmp_path / "oxia", flags=["--notifications-enabled=false"]) as oxia:
        oxia.load([("/ledgers/cookies/b:1", b"c")])
        with closing(open_store(oxia.uri, OPTIONS)) as store:
            assert isinstance(store, WatchableStore)
            store.watch_ledgers()
            assert "notifications not enabled" in str(store.changed_ledgers().unknown_reason)


def test_a_hundred_thousand_ledgers_are_each_read_once(tmp_path: Path) -> None:
    with running(tmp_path / "oxia", shards=2) as oxia:
        paths = [
            f"/ledgers/{n // 10**8:02}/{n // 10**4 % 10**4:04}/L{n % 10**4:04}" for n in range(LEDGER_COUNT)
        ]
        oxia.load((path, b"x" * 320) for path in paths)
        with closing(open_store(oxia.uri, OPTIONS)) as store:
            tree_values = read(store, Tree.LEDGERS, part_count=8)
            assert {path for path, data in tree_values.items() if data} == {*paths}
        counted = count_ledgers(oxia.uri, LAYOUT, OPTIONS)
        assert (counted.ledgers, counted.is_exact) == (LEDGER_COUNT, False)


def test_shard_of_a_stopped_leader_is_read_from_the_next_leader(tmp_path: Path) -> None:
    names = {"bookkeeper": {"initialShardCount": 2}}
    with running_cluster(tmp_path / "oxia", servers=3, namespaces=names) as oxia:
        paths = [f"/ledgers/00/0000/L{n:04}" for n in range(3000)]
        oxia.load((path, b"x" * 500) for path in paths)
        client = OxiaClient([oxia.servers[0], oxia.servers[1]], "bookkeeper", OPTIONS)
        with closing(client):
            shards = client.shards()
            lost = oxia.leaders()[shards[0].number]
            oxia.processes[lost].stop()
            oxia.wait_for_other_leader(lost)
            keys = [
                record.key.decode()
                for shard in shards
                for record in client.ask(shard, ChildRecords("/ledgers/00/0000"))
            ]
            assert sorted(keys) == paths
            assert client.operations["retry"] > 0
        # A server that is no longer the leader says so.
        other_server = next(server for server in oxia.servers if server != lost)
        moved = oxia.leaders(other_server)
        oxia.processes[lost].start()
        client = OxiaClient([other_server], "bookkeeper", OPTIONS)
        with closing(client):
            shards = client.shards()
            stale = {
                number: next(s for s in oxia.servers if s not in (leader, lost))
                for number, leader in moved.items()
            }
            assert client._assignments is not None
            client._assignments.leaders.update(stale)
            assert len(client.ask(shards[0], ChildRecords("/ledgers/00/0000"))) > 0
            assert client.operations["retry"] > 0


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


def credentials(folder: Path, text: str) -> StoreOptions:
    file = folder / "credentials.toml"
    file.write_text(text)
    file.chmod(0o600)
    return StoreOptions(rate_limit=0, timeout_s=10, credentials=str(file))


def test_client_certificate_is_accepted_by_a_server_that_requires_it(
    files: Certificates, tmp_path: Path
) -> None:
    with running_cluster(tmp_path / "oxia", namespaces={"bookkeeper": {}}, tls=files) as oxia:
        oxia.load([("/ledgers/00/0000/L0001", b"x")])
        whole = f'[oxia.tls]\nca = "{files.ca}"\ncertificate = "{files.client}"\nkey = "{files.client_key}"\n'
        with closing(open_store(oxia.uri, credentials(tmp_path, whole))) as store:
            store.cluster()
            assert "/ledgers/00/0000/L0001" in read(store, Tree.LEDGERS)
        for text, words in (
            ("", r"the server requires (TLS|a client certificate); add .* to \[oxia.tls\]"),
            (
                f'[oxia.tls]\nca = "{files.ca}"\n',
                r"requires a client certificate; add certificate and key to \[oxia.tls\]",
            ),
            (
                f'[oxia.tls]\nca = "{files.client}"\n',
                r"certificate of the server is not accepted .* ca in \[oxia.tls\]",
            ),
        ):
            store = open_store(oxia.uri, credentials(tmp_path, text))
            with closing(store), pytest.raises(StoreError, match=words):
                store.cluster()


def test_token_of_the_issuer_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_issuer() as issuer:
        token = issuer.token("auditor")
        provider_params = json.dumps({"allowedIssueURLs": issuer.url, "allowedAudiences": AUDIENCE})
        flags = ["--auth-provider-name", "oidc", "--auth-provider-params", provider_params]
        names: dict[str, dict[str, object]] = {"bookkeeper": {}}
        with running_cluster(tmp_path / "oxia", namespaces=names, token=token, flags=flags) as oxia:
            oxia.load([("/ledgers/00/0000/L0001", b"x")])
            monkeypatch.setenv("OXIA_TOKEN", token)
            options = credentials(tmp_path, '[oxia]\ntoken_env = "OXIA_TOKEN"\n')
            with closing(open_store(oxia.uri, options)) as store:
                assert "/ledgers/00/0000/L0001" in read(store, Tree.LEDGERS)
            for text in ("", f'[oxia]\ntoken = "{issuer.token("auditor", lasts_s=-60)}"\n'):
                store = open_store(oxia.uri, credentials(tmp_path, text))
                with closing(store), pytest.raises(StoreError, match=r"\[oxia\] section") as raised:
                    store.cluster()
                assert token[:40] not in str(raised.value)


def test_tls_section_for_a_server_without_tls_is_an_error(
    server: Oxia, files: Certificates, tmp_path: Path
) -> None:
    options = credentials(tmp_path, f'[oxia.tls]\nca = "{files.ca}"\n')
    words = r"the server does not use TLS; remove \[oxia.tls\]"
    with closing(open_store(server.uri, options)) as store, pytest.raises(StoreError, match=words):
        store.cluster()


def test_namespace_and_release_of_a_server_are_checked(server: Oxia) -> None:
    check_reachable(server.uri, OPTIONS)
    [probed] = probe_servers(server.uri, OPTIONS)
    version = "0.15 or later" if OTHER_PROGRAM in os.environ else "0.14 or earlier"
    assert (probed.is_reached, probed.version) == (True, version)
    with (
        closing(open_store(f"{server.uri}x", OPTIONS)) as store,
        pytest.raises(StoreError, match="no namespace defaultx"),
    ):
        store.cluster()
