"""One cluster with renamed bookies, and with bookies that only look renamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from auditor.codecs.protobuf.pb.service_info_pb2 import BookieServiceInfoFormat
from auditor.notebook.run import open_run
from auditor.runs.load_bookie import bookie_view
from tests.corpora.audited import FinishedRun, audit
from tests.corpora.cluster import Cluster, cookie_bytes, striped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C, D = (f"{name}.example:3181" for name in "abcd")


@dataclass
class Identities:
    """A cluster under construction, and the audit results expected for ids that are gone."""

    cluster: Cluster = field(default_factory=Cluster)
    aliases: dict[str, tuple[str, str]] = field(default_factory=dict)  # old id: the new one, how sure
    harmless: dict[str, str] = field(default_factory=dict)  # old id: the new one; no ledger names the old one
    in_danger: dict[str, str] = field(default_factory=dict)  # bookie: how sure
    ledgers: int = 0

    def bookie(self, bookie: str, host: str, port: int, disks: str | None = None) -> str:
        """Add a bookie that answers at this address; ``disks``: the directory name in its cookies."""
        name = disks or bookie.replace(":", "_")
        cookie = cookie_bytes(bookie, name, ["ledgers0"], self.cluster.instance)
        on_disk = {"journal": cookie, "ledgers0": cookie}
        self.cluster.bookie(bookie, cookie=cookie, on_disk=on_disk, registered=None)
        info = BookieServiceInfoFormat()
        info.endpoints.add(id="bookie", host=host, port=port, protocol="bookie-rpc")
        self.cluster.node(f"/ledgers/available/{bookie}", info.SerializeToString(), owner=1)
        return bookie

    def add_down_bookie(self, bookie: str, disks: str | None = None) -> str:
        """Add a bookie with a cookie, and nothing else."""
        cookie = cookie_bytes(bookie, disks or bookie.replace(":", "_"), ["ledgers0"], self.cluster.instance)
        return self.cluster.bookie(bookie, cookie=cookie, registered=None, disk=False)

    def add_ledgers(
        self, bookie: str, number: int, *, on: str | None = None, other_members: Sequence[str] = (A, B)
    ) -> None:
        """Add ``number`` ledgers that name the bookie; its copies are on the disks of ``on``."""
        for _ in range(number):
            self.ledgers += 1
            ledger = self.cluster.ledger(self.ledgers, {0: [bookie, *other_members]}, (2, 2), 29)
            if on is not None:
                self.cluster.hold(self.ledgers, on, striped(ledger)[bookie])


def renamed(world: Identities) -> None:
    """Add a bookie that now has an id of its own, at its old address and on its old disks."""
    old = world.add_down_bookie("10.1.0.1:3181", "disks-1")
    new = world.bookie("bk-1", "10.1.0.1", 3181, "disks-1")
    world.add_ledgers(old, 6, on=new)
    world.aliases[old] = new, "confirmed"
    world.in_danger[new] = "confirmed"


def renamed_elsewhere(world: Identities) -> None:
    """Add a container with a new name, on another machine; only its ledgers identify it."""
    new = world.bookie("pod-c3d4:3181", "pod-c3d4", 3181)
    world.add_ledgers("pod-a1b2:3181", 6, on=new)
    world.aliases["pod-a1b2:3181"] = new, "confirmed"
    world.in_danger[new] = "confirmed"


def in_small_letters(world: Identities) -> None:
    """Add a bookie whose host name is now in small letters; one ledger is too few to be sure."""
    new = world.bookie("bk3.example:3181", "10.1.0.3", 3181)
    world.add_ledgers("BK3.example:3181", 1, on=new)
    world.aliases["BK3.example:3181"] = new, "suspect"
    world.in_danger[new] = "confirmed"


def set_up_anew(world: Identities) -> None:
    """Add a new bookie on the machine of a dead one, with the same address and the same empty directories."""
    world.add_ledgers(world.add_down_bookie("10.1.0.4:3181", "disks-4"), 2)
    world.bookie("bk-4", "10.1.0.4", 3181, "disks-4")


def on_one_host(world: Identities) -> None:
    """Add three bookies on one machine, one of which is down."""
    for port in (3182, 3183):
        world.bookie(f"host5.example:{port}", "10.1.0.5", port)
    world.add_ledgers(world.add_down_bookie("host5.example:3181"), 2)


def behind_one_address(world: Identities) -> None:
    """Add three bookies behind a proxy with an address that was a bookie's once."""
    for name in ("nat-a", "nat-b", "nat-c"):
        world.bookie(name, "10.1.0.6", 3181)
    world.add_ledgers(world.add_down_bookie("10.1.0.6:3181"), 2)


def in_two_namespaces(world: Identities) -> None:
    """Add pods with one name in two namespaces; one is down, and both have the same short name."""
    world.bookie("bookie-0.bk.ns1.svc:3181", "10.1.0.7", 3181)
    world.add_ledgers(world.add_down_bookie("bookie-0.bk.ns2.svc:3181"), 2)
    world.add_ledgers("bookie-0:3181", 2)


def in_containers(world: Identities) -> None:
    """Add containers that all have the host name localhost."""
    world.bookie("box-1", "localhost", 3181)
    world.add_ledgers("localhost:3181", 2)


def address_given_away(world: Identities) -> None:
    """Add a live bookie that moved to a dead bookie's address; the two had written many ledgers together."""
    world.bookie("bk-8", "10.1.0.8", 3181)
    world.add_ledgers("10.1.0.8:3181", 3, other_members=("bk-8", A))


def back_from_the_dead(world: Identities) -> None:
    """Add a bookie whose ledgers went to another, now gone, with more ledgers: no rename, the same danger."""
    returned_id = world.bookie("back.example:3181", "10.1.0.9", 3181)
    successor = world.add_down_bookie("successor.example:3181")
    world.add_ledgers(successor, 5, on=returned_id)
    world.add_ledgers(successor, 6)
    world.in_danger[returned_id] = "confirmed"


def decommissioned(world: Identities) -> None:
    """Add a bookie with copied ledgers and no cookie; its machine came back under another id.

    A mark still names the old id, so the audit knows it. It looks like an id of the new bookie.
    """
    world.bookie("bk-10", "10.1.0.10", 3181)
    world.cluster.mark(1, "10.1.0.10:3181")
    world.harmless["10.1.0.10:3181"] = "bk-10"


SCENES = (
    renamed, renamed_elsewhere, in_small_letters, set_up_anew, on_one_host, behind_one_address,
    in_two_namespaces, in_containers, address_given_away, back_from_the_dead, decommissioned,
)  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Identities:
    identities = Identities()
    for bookie in (A, B, C, D):
        identities.cluster.bookie(bookie)
    for scene in SCENES:
        scene(identities)
    return identities


@pytest.fixture(scope="module")
def audited(world: Identities, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> FinishedRun:
    root = world.cluster.write(tmp_path_factory.mktemp("identities"))
    return audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", root / "run")


def test_exactly_the_renamed_bookies_are_found(world: Identities, audited: FinishedRun) -> None:
    alias_rows = {row["bookie_id"]: row for row in audited.findings_of("bookie-alias")}
    assert {old: row["confidence"] for old, row in alias_rows.items()} == {
        old: sure for old, (_, sure) in world.aliases.items()
    }
    assert {row["severity"] for row in alias_rows.values()} == {"critical"}


def test_only_renamed_ids_share_an_identity(world: Identities, audited: FinishedRun) -> None:
    groups: dict[str, list[str]] = {}
    for row in audited.table("identities"):
        groups.setdefault(row["identity"], []).append(row["bookie_id"])
    pairs = [(old, new) for old, (new, _) in world.aliases.items()] + list(world.harmless.items())
    assert {tuple(ids) for ids in groups.values() if len(ids) > 1} == {tuple(sorted(pair)) for pair in pairs}


def test_every_renamed_bookie_is_in_danger_of_collection(world: Identities, audited: FinishedRun) -> None:
    confidences = {row["bookie_id"]: row["confidence"] for row in audited.findings_of("alias-gc-danger")}
    assert confidences == world.in_danger
    assert {new for new, _ in world.aliases.values()} <= set(confidences)


def test_rejected_rename_has_an_edge_with_its_counter_evidence(audited: FinishedRun) -> None:
    edges = {
        (row["one"], row["other"]): row
        for row in audited.table("identity_edges")
        if row["rule"] == "endpoint-is-id" and not row["joins"]
    }
    assert set(edges) == {("10.1.0.4:3181", "bk-4"), ("10.1.0.8:3181", "bk-8")}
    assert edges["10.1.0.4:3181", "bk-4"]["against"] == (
        "2 ledgers name the absent id and not the live one; the live bookie's disks have none of them"
    )
    assert edges["10.1.0.8:3181", "bk-8"]["against"] == "3 of 3 ledgers have both ids in the same ensemble"


def test_renamed_bookies_get_no_second_identity_finding(world: Identities, audited: FinishedRun) -> None:
    for row in audited.findings():
        assert row["id"] not in ("disk-id-mismatch", "disk-content-mismatch"), row["message"]
    [duplicate] = audited.findings_of("endpoint-duplicate")
    assert duplicate["bookie_id"] == "nat-a"


def test_bookie_view_shows_the_other_id_of_a_renamed_bookie(world: Identities, audited: FinishedRun) -> None:
    run = open_run(audited.out)
    for old, (new, _) in world.aliases.items():
        assert [alias.bookie_id for alias in bookie_view(run, old).aliases if alias.is_same_bookie] == [new]
        assert [alias.bookie_id for alias in bookie_view(run, new).aliases if alias.is_same_bookie] == [old]
    assert [alias.is_same_bookie for alias in bookie_view(run, "bk-4").aliases] == [False]
    assert bookie_view(run, A).aliases == ()
