"""Faults of ledger owners, in data of a real Pulsar that were damaged afterwards (`tests/data/pulsar-a`)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from proofs.oracle.plants import Plants

DATA = Path(__file__).parents[2] / "tests" / "data" / "pulsar-a"
FAULTS = json.loads(gzip.decompress((DATA / "oracle.json.gz").read_bytes()))["faults"]
IN_A_CURSORS_LEDGER = 58
"""The ledger id that only an entry on a bookie names. The audit gets no bookies."""

COPIED, ITS_LEDGERS = "/managed-ledgers/fleet/telemetry/persistent/season-2025", (94, 96)
GENERATOR = "/ledgers/idgen"
OBJECTS = "{uid}-ledger-{ledger}", "{uid}-ledger-{ledger}-index"
ABORTED_UID, ABORTED = "0c5b1f3a-8d1e-4b7e-9a51-3f6f0e1a2b3c", 4711


def plant(hosts: str, plants: Plants) -> None:
    """Register the faults of the corpus, and copy a topic's list to a second name."""
    for fault in FAULTS:
        if fault["expect"] != "none" and fault["ledger"] != IN_A_CURSORS_LEDGER:
            plants.plant(fault["expect"], f"Pulsar's metadata: {fault['kind']}", fault["ledger"])
    client: Any = KazooClient(hosts)
    client.start()
    value, _ = client.get(COPIED)
    client.create(f"{COPIED}-copy", value)
    client.delete(GENERATOR, recursive=True)
    client.create(GENERATOR, b"")
    plants.plant("id-generator-behind", "idgen deleted and created anew by a client")
    client.stop()
    client.close()
    plants.plant("owners-suspect", "a store of owners that nobody declared complete")
    # The audit has no bookies, and the corpus has artificial bookie ids on one machine's addresses.
    plants.follows("bookie-unread")
    plants.follows("endpoint-drift", bookies=(f"bookie-{number}.example:3181" for number in range(3)))
    for ledger in ITS_LEDGERS:
        plants.plant("ledger-misattributed", "Pulsar's metadata: a list copied to another name", ledger)


def list_objects(owners: Sequence[dict[str, Any]], bucket: Path, plants: Plants) -> dict[str, Any]:
    """Write the inventory of an offload bucket; return the options of the audit that reads it.

    The index of one offloaded ledger is missing, and no owner refers to one of the copies.
    """
    copies = {
        row["offload_uid"]: row["ledger_id"] for row in owners if row["offload"] in ("complete", "deleted")
    }
    broken = min(copies, key=copies.__getitem__)
    names = [
        form.format(uid=uid, ledger=ledger)
        for uid, ledger in {**copies, ABORTED_UID: ABORTED}.items()
        for form in OBJECTS
    ]
    names.remove(OBJECTS[1].format(uid=broken, ledger=copies[broken]))
    bucket.write_text("".join(f"{line}\n" for line in ("name,size", *(f"{name},700" for name in names))))
    plants.plant("offload-object-missing", "an inventory without an index of Pulsar's list", copies[broken])
    plants.plant("object-orphan", "an inventory with a copy that no list names", ABORTED)
    return {"offload_listing": str(bucket)}
