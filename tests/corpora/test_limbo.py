"""Ledgers in limbo as 4.17.2 writes them: ``tests/data/limbo``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

from auditor import Audit
from auditor.demo.sample import extract
from tests.corpora.audited import FinishedRun
from tests.servers.limbo import CLOSED, LIMBO, OPEN, UNLISTED_LEDGERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[1] / "data" / "limbo"


def test_limbo_copies_do_not_count_and_give_one_finding_a_bookie(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "metadata.jsonl").write_bytes(gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes()))
    extract(DATA / "bookies.tar.gz", tmp_path)
    answers = json.loads((DATA / "answers.json").read_text())
    # The first lost a disk and waits for its check; the second has all, and two ledgers in limbo.
    healing, whole = answers
    assert all("EUNKNOWNLEDGERSTATE" in answers[healing][str(ledger)] for ledger in OPEN)
    assert [ledger for ledger in CLOSED if "EUNKNOWNLEDGERSTATE" in answers[whole][str(ledger)]] == [*LIMBO]
    # The others have their two directories exchanged; one of them holds nothing.
    for place in (tmp_path / "bookies").iterdir():
        if place.name.replace("_", ":") not in answers:
            for old, new in (("ledgers0", "other"), ("ledgers1", "ledgers0"), ("other", "ledgers1")):
                (place / old).rename(place / new)
    sources = (f"dump://{tmp_path / 'metadata.jsonl'}", [str(tmp_path / "bookies")], str(tmp_path / "run"))
    run = FinishedRun(Audit(*sources).run(spark), tmp_path / "run")
    in_limbo = {
        (row["ledger_id"], row["bookie_id"])
        for row in run.table("availability")
        if row["state"] == "limbo" and row["groups"]
    }
    assert in_limbo == {(ledger, healing) for ledger in OPEN if ledger % 2 == 0} | {(n, whole) for n in LIMBO}
    evidence = {row["bookie_id"]: json.loads(row["evidence"]) for row in run.findings_of("ledgers-in-limbo")}
    assert evidence == {
        healing: {"ledgers": len(OPEN), "closed": len(OPEN), "sample": [str(number) for number in OPEN]},
        whole: {"ledgers": len(LIMBO), "closed": len(LIMBO), "sample": [str(number) for number in LIMBO]},
    }
    unknown = {
        (row["ledger_id"], copy["bookie_id"]): (copy["count"], copy["why"])
        for row in run.table("judged")
        for copy in row["unknown"]
    }
    assert {unknown[ledger, whole] for ledger in LIMBO} == {(5, "limbo")}
    # Of a bookie whose check is due, all that it lacks is unknown; in limbo also what it has.
    assert {unknown[ledger, healing][0] for ledger in OPEN} == {5}
    [exchanged] = run.findings_of("ledgers-in-wrong-directory")
    assert exchanged["confidence"] == "confirmed"
    assert " were swapped, so it cannot find 10 ledgers" in exchanged["message"]
    assert {unknown[ledger, exchanged["bookie_id"]] for ledger in (*CLOSED, *OPEN)} == {
        (5, "wrong-directory")
    }
    # Nothing else is said of these copies, and of no ledger but those that the metadata does not list.
    assert {(row["id"], row["ledger_id"]) for row in run.findings()} == {
        *((id, None) for id in ("ledgers-in-limbo", "ledgers-in-wrong-directory", "bookie-unread")),
        *(("orphan-ledger", ledger) for ledger in UNLISTED_LEDGERS),
    }
    assert run.report.verdict == "not-healthy"
