"""``bkaudit simulate`` of real audits: every bookie and every pair of them, against entry by entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from auditor.model.placement import Level
from auditor.model.simulation import Amount, Outcome
from auditor.runs.reader import RunReader
from auditor.simulate.loss import WindowOutcome
from auditor.simulate.simulation import simulate_failure
from tests.corpora.audited import Audited, entries
from tests.simulate.small_clusters import Ledger, plain_fates

PAIRS = 6


def ledgers_of(audited: Audited) -> Iterator[Ledger]:
    judged = {(row["scope_id"], row["ledger_id"]): row for row in audited.table("judged")}
    for row in audited.table("ledgers"):
        if row["undecidable"] is not False or row["ledger_id"] is None:
            continue
        said = judged.get((row["scope_id"], row["ledger_id"]), {"missing": [], "unknown": [], "doubts": []})
        yield Ledger(
            row["ledger_id"], row["state"], row["ensemble_size"], row["write_quorum"], row["ack_quorum"],
            row["last_entry_id"],
            tuple((each["first_entry_id"], tuple(each["ensemble"])) for each in row["segments"]),
            {each["bookie_id"]: entries(each["groups"]) for each in said["missing"]},
            frozenset(each["bookie_id"] for each in said["unknown"]),
            bool(said["doubts"]),
            row["scope_id"],
        )  # fmt: skip


def counts_of(outcome: Outcome) -> Counter[tuple[WindowOutcome, str]]:
    amounts: dict[WindowOutcome, Amount] = {
        WindowOutcome.LOST: outcome.lost,
        WindowOutcome.BELOW_ACK_QUORUM: outcome.below_ack,
        WindowOutcome.BELOW_WRITE_QUORUM: outcome.below_write,
        WindowOutcome.OPEN_END: Amount(outcome.unrecoverable),
    }
    return +Counter(
        {(f, unit): getattr(a, unit) for f, a in amounts.items() for unit in ("ledgers", "entries")}
    )


def test_a_real_audit_loses_what_its_entries_say(audited: Audited) -> None:
    ledgers = list(ledgers_of(audited))
    bookies = audited.table("bookies")
    members = sorted({name for each in ledgers for _, ensemble in each.segments for name in ensemble})
    unread = {row["bookie_id"] for row in bookies if row["read"] == "unread"}
    down = {row["bookie_id"] for row in bookies if row["registered"] is None}
    known = len(down) < len(bookies)
    failures = [{name} for name in members] + [set(pair) for pair in combinations(members, 2)][:PAIRS]
    for lost in failures:
        found = simulate_failure(RunReader(audited.out), [(Level.BOOKIE, sorted(lost))]).failure
        assert found is not None
        views = {
            "promise": (found.promise.sure, set()),
            "today": (found.today.sure, down if known else set()),
            "today_possible": (found.today.possible, down),
        }
        for view, (outcome, silent) in views.items():
            wanted: Counter[tuple[WindowOutcome, str]] = Counter()
            for each in ledgers:
                wanted += plain_fates(each, lost, set(), unread, silent, view)
            assert counts_of(outcome) == wanted, (lost, view)
