"""The scenarios of ``replicas-check-tests`` as clusters.

A scenario is metadata and the answer of each bookie. Entries become an index file, and an empty answer a
file with only a header. No ledger (-7, or a bookie not named) becomes no file, and any other error an
unreadable index file. An audit takes seconds, so the scenarios of one layout share a cluster without overlap.
The first two digits of their bookies' ids and the millions of their ledgers' ids differ. The scenario of
ids at the layout's edges keeps its own ledger ids.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.corpora.cluster import HOUR, NOW_MS, Cluster, index_bytes, ledger_path
from tests.corpora.plain_readers import read_availability

DATA = Path(__file__).parent.parent / "data" / "replicas-check-tests" / "scenarios.json.gz"
NO_LEDGER = -7


@dataclass(frozen=True)
class Case:
    """A ledger of a scenario, with its ids in the shared cluster."""

    scenario: str
    ledger: int
    own_id: int
    marked: bool
    verdicts: dict[str, Any]
    answers: dict[str, Any]
    data: bytes

    @property
    def exact(self) -> str | None:
        """Return the server's verdict with exact look-ups, or None where it could not read the metadata."""
        exact = self.verdicts.get("exact")
        answer = self.verdicts["stock"] if exact == "as stock" else exact
        return str(answer["verdict"]) if answer else None

    @property
    def stock(self) -> str:
        return str(self.verdicts["stock"]["verdict"])


def load() -> list[dict[str, Any]]:
    scenarios: list[dict[str, Any]] = json.loads(gzip.decompress(DATA.read_bytes()))["scenarios"]
    return scenarios


def cases(scenarios: list[dict[str, Any]], layout: str) -> Iterator[Case]:
    for number, scenario in enumerate(scenarios):
        if scenario["layout"] != layout:
            continue
        base = 0 if scenario["name"].startswith("ids-") else 1_000_000 * (number + 1)
        for own_id, ledger in scenario["ledgers"].items():
            yield Case(
                scenario["name"],
                base + int(own_id),
                int(own_id),
                ledger["marked"],
                {key: ledger[key] for key in ("stock", "exact") if key in ledger},
                {_own_bookie(bookie, number): answer for bookie, answer in ledger["availability"].items()},
                base64.b64decode(ledger["metadataBase64"]).replace(b"98.98.98.", _prefix(number)),
            )


def _prefix(number: int) -> bytes:
    return b"%02d.98.98." % (10 + number)


def _own_bookie(bookie: str, number: int) -> str:
    return bookie.replace("98.98.98.", _prefix(number).decode(), 1)


def build(scenarios: list[dict[str, Any]], layout: str) -> Cluster:
    """Return one cluster of all scenarios with this layout."""
    cluster = Cluster(layout)
    for number, scenario in enumerate(scenarios):
        if scenario["layout"] == layout:
            for bookie in scenario["bookies"]:
                cluster.bookie(_own_bookie(bookie, number))
    for case in cases(scenarios, layout):
        # Written an hour ago: no recovery of these is stuck yet.
        cluster.node(f"/ledgers/{ledger_path(layout, case.ledger)}", case.data, time=NOW_MS - HOUR)
        if case.marked:
            cluster.mark(case.ledger, next(iter(case.answers)))
        for bookie, answer in case.answers.items():
            if "bytes" in answer:
                entries = read_availability(bytes.fromhex(answer["bytes"]))
                cluster.index(case.ledger, bookie, index_bytes(entries))
            elif answer["rc"] != NO_LEDGER:
                cluster.index(case.ledger, bookie, b"LOST" + index_bytes(())[4:])
    return cluster
