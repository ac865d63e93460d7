"""Faults of bookie locations: Pulsar's ``/bookies`` as an operator sets it, and two configuration files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from proofs.oracle.commands import zkcli
from proofs.oracle.plants import Plants
from tests.clusters.store import ROOT, Store
from tests.servers.bookies.driver import Bookies

STORAGE = "InterleavedLedgerStorage"
BOOKIES = 5
IN_ONE_RACK, HEALTHY = 1, 2
COPY_AGE_S = 2 * 86_400


def write(cluster: Bookies) -> None:
    a, b, c, *_ = cluster.ids
    for ledger, ensemble in ((IN_ONE_RACK, [a, b]), (HEALTHY, [a, c])):
        cluster.write(ledger, ensemble, 2, 2, 10)
    cluster.flush()


def set_racks(cluster: Bookies, store: Store, plants: Plants) -> dict[str, Any]:
    """Set two racks and omit one bookie; return the options of an audit."""
    a, b, c, d, _ = cluster.ids
    zkcli(store, "create", "/bookies", _mapping({a: "/r1", b: "/r1", c: "/r2", d: "/r2"}))
    deed = "zkCli.sh create /bookies with both in one rack"
    plants.plant("placement-violated", deed, IN_ONE_RACK)
    plants.plant("bookie-without-location", "zkCli.sh create /bookies without a bookie")
    return {"placement": "rack"}


def mix_racks(cluster: Bookies, store: Store, plants: Plants, root: Path) -> dict[str, Any]:
    """Set racks of different forms, and servers with different policies; return the options of an audit."""
    a, b, c, d, e = cluster.ids
    racks = {a: "/r1", b: "/r1", c: "/r2", d: "/r2//", e: "/east/r2"}
    zkcli(store, "set", "/bookies", _mapping(racks, other={c: "/r2"}))
    zkcli(store, "delete", f"{ROOT}/INSTANCEID")
    (broker := root / "broker.conf").write_text("bookkeeperClientMinNumRacksPerWriteQuorum=1\n")
    (server := root / "bk_server.conf").write_text("minNumRacksPerWriteQuorum=2\n")
    plants.plant("placement-at-risk", "a minimum of 1 rack, and both copies in one", IN_ONE_RACK)
    plants.plant("location-depths-mixed", "zkCli.sh set /bookies with /east/r2 and /r2")
    plants.plant("location-slashes", "zkCli.sh set /bookies with /r2 and /r2//")
    plants.plant("bookie-in-two-groups", "zkCli.sh set /bookies with two groups", None, c)
    plants.plant("placement-settings-differ", "broker.conf and bk_server.conf differ")
    plants.plant("instance-id-missing", "zkCli.sh delete of INSTANCEID")
    return {"placement": str(broker), "bookie_conf": str(server)}


def restore_old_copy(cluster: Bookies, plants: Plants) -> None:
    """Make a bookie's directories look like a copy from before its ledgers were created."""
    bookie = cluster.ids[1]
    place = cluster.place(bookie)
    for index in place.rglob("*.idx"):
        index.unlink()
    for file in place.rglob("*"):
        time = file.stat().st_mtime - COPY_AGE_S
        os.utime(file, (time, time))
    plants.plant("source-suspect", "a copy of the directories, two days older", None, bookie)
    plants.follows("bookie-unread", bookies=(bookie,))
    plants.follows("replication-undecided", ledgers=(IN_ONE_RACK,))


def _mapping(racks: dict[str, str], **groups: dict[str, str]) -> str:
    all_groups = {"default": racks, **groups}
    return json.dumps(
        {
            name: {bookie: {"rack": rack, "hostname": None} for bookie, rack in group_racks.items()}
            for name, group_racks in all_groups.items()
        }
    )
