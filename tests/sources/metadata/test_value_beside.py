"""Pulsar's ``/bookies`` next to BookKeeper's root, in running stores, their files, and dumps of them."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from auditor.audit.placement_scan import Placement, read_placement
from auditor.codecs.pulsar.bookie_racks import decode
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.options import AuditOptions
from auditor.sources.metadata.store import sibling_value
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.uri import parse_metadata_uri
from auditor.sources.racks import PULSAR_MAPPING
from tests.cli.test_doors import bkaudit
from tests.servers import etcd as etcd_server
from tests.servers.zookeeper import writer

DATA = Path(__file__).parents[2] / "data"
PULSAR_RACKS = (DATA / "pulsar-racks-4.2.4" / "bookies.json").read_bytes()
"""As Pulsar 4.2.4 wrote it."""


def read_sibling(uri: str) -> bytes | None:
    with closing(open_store(uri)) as store:
        store.cluster()
        return sibling_value(store, PULSAR_MAPPING)


def placement(uri: str) -> Placement:
    with closing(open_store(uri)) as store:
        store.cluster()
        return read_placement(parse_metadata_uri(uri), store, AuditOptions())


def test_pulsar_racks_are_read_from_zookeeper_its_files_and_a_dump(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "server") as server:
        live = f"zk://{server.hosts}/ledgers"
        with writer(server.hosts) as client:
            for path in ("LAYOUT", "available/readonly", "cookies"):
                client.create(f"/ledgers/{path}", b"", makepath=True)
            client.set("/ledgers/LAYOUT", b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1")
            assert read_sibling(live) is None
            client.create("/bookies", b"{}")
            client.set("/bookies", PULSAR_RACKS)  # in the logs the last word counts
            client.create("/chroot/ledgers/LAYOUT", client.get("/ledgers/LAYOUT")[0], makepath=True)
        # Below a chroot that brokers do not have their racks are not seen, and that is said.
        hidden = f"zk://{server.hosts}/chroot/ledgers"
        assert read_sibling(hidden) is None
        assert read_sibling(live) == PULSAR_RACKS
        assert placement(live).origin == f"/bookies in {live}"
        [notice] = placement(hidden).remarks
        assert notice["text"] == "no racks were found"
        assert notice["details"][0] == f"/chroot/bookies in {hidden} does not exist"
        assert placement(hidden).origin is None
        for name, options in (("a", []), ("b", ["--without-owners"])):
            assert bkaudit("dump", live, str(tmp_path / name), *options).exit_code == 0
            assert read_sibling(f"dump://{tmp_path}/{name}") == PULSAR_RACKS
    saved = tmp_path / "saved"
    shutil.copytree(next(tmp_path.glob("server/**/version-2")), saved)
    assert read_sibling(f"zk-snapshot://{saved}?root=/ledgers") == PULSAR_RACKS
    assert len(decode(PULSAR_RACKS)) == 3


def test_pulsar_racks_are_read_from_etcd_its_snapshot_and_a_dump(tmp_path: Path) -> None:
    with etcd_server.running(tmp_path / "etcd", saved=True) as server:
        live = f"etcd://{server.host}/bk/cluster1"
        assert read_sibling(live) is None
        server.load([("/bk/bookies", PULSAR_RACKS)])
        assert read_sibling(live) == PULSAR_RACKS
        assert bkaudit("dump", live, str(tmp_path / "a")).exit_code in (0, 3)
        server.save(tmp_path / "snapshot.db")
    assert read_sibling(f"dump://{tmp_path}/a?root=/bk/cluster1") == PULSAR_RACKS
    assert read_sibling(f"etcd-snapshot://{tmp_path}/snapshot.db?scope=/bk/cluster1") == PULSAR_RACKS
