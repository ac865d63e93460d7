"""Ledgers in limbo as 4.17.2 writes them: ``tests/data/limbo``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

from auditor import Audit
from auditor.demo.sample import extract
from tests.corpora.audited import Audited
from tests.servers.limbo import CLOSED, LATER, LIMBO, OPEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[1] / "data" / "limbo"


def test_no_copy_in_limbo_counts_and_each_bookie_is_one_finding(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "metadata.jsonl").write_bytes(gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes()))
    extract(DATA / "bookies.tar.gz", tmp_path)
    said = json.loads((DATA / "answers.json").read_text())
    # The first lost a disk and waits for its check; the second has all, and two ledgers in limbo.
    healing, whole = said
    assert all("EUNKNOWNLEDGERSTATE" in said[healing][str(ledger)] for ledger in OPEN)
    assert [ledger for ledger in CLOSED if "EUNKNOWNLEDGERSTATE" in said[whole][str(ledger)]] == [*LIMBO]
    # The others have their two directories exchanged; one of them holds nothing.
    for place in (tmp_path / "bookies").iterdir():
        if place.name.replace("_", ":") not in said:
            for old, new in (("ledgers0", "other"), ("ledgers1", "ledgers0"), ("other", "ledgers1")):
                (place / old).rename(place / new)
    sources = (f"dump://{tmp_path / 'metadata.jsonl'}", [str(tmp_path / "bookies")], str(tmp_path / "run"))
    run = Audited(Audit(*sources).run(spark), tmp_path / "run")
    held = {
        (row["ledger_id"], row["bookie_id"])
        for row in run.table("availability")
        if row["state"] == "limbo" and row["groups"]
    }
    assert held == {(ledger, healing) for ledger in OPEN if ledger % 2 == 0} | {(n, whole) for n in LIMBO}
    found = {row["bookie_id"]: json.loads(row["evidence"]) for row in run.of("ledgers-in-limbo")}
    assert found == {
        healing: {"ledgers": len(OPEN), "closed": len(OPEN), "sample": [str(each) for each in OPEN]},
        whole: {"ledgers": len(LIMBO), "closed": len(LIMBO), "sample": [str(each) for each in LIMBO]},
    }
    unknown = {
        (row["ledger_id"], copy["bookie_id"]): (copy["count"], copy["why"])
        for row in run.table("judged")
        for copy in row["unknown"]
    }
    assert {unknown[ledger, whole] for ledger in LIMBO} == {(5, "limbo")}
    # Of a bookie whose check is due, all that it lacks is unknown; in limbo also what it has.
    assert {unknown[ledger, healing][0] for ledger in OPEN} == {5}
    [exchanged] = run.of("ledgers-in-wrong-directory")
    assert exchanged["confidence"] == "confirmed"
    assert " were swapped, so it cannot find 10 ledgers" in exchanged["message"]
    assert {unknown[ledger, exchanged["bookie_id"]] for ledger in (*CLOSED, *OPEN)} == {
        (5, "wrong-directory")
    }
    # Nothing else is said of these copies, and of no ledger but those that the metadata does not list.
    assert {(row["id"], row["ledger_id"]) for row in run.findings()} == {
        *((id, None) for id in ("ledgers-in-limbo", "ledgers-in-wrong-directory", "bookie-unread")),
        *(("orphan-ledger", ledger) for ledger in LATER),
    }
    assert run.report.verdict == "not-healthy"
