"""``bkaudit simulate`` of real audits: every bookie and every pair, compared with a count by entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from auditor.model.placement import Level
from auditor.model.simulation import Amount, Outcome
from auditor.runs.reader import RunReader
from auditor.simulate.loss import WindowOutcome
from auditor.simulate.simulation import simulate_failure
from tests.corpora.audited import FinishedRun, entries
from tests.simulate.small_clusters import Ledger, plain_fates

PAIRS = 6


def ledgers_of(audited: FinishedRun) -> Iterator[Ledger]:
    judged = {(row["scope_id"], row["ledger_id"]): row for row in audited.table("judged")}
    for row in audited.table("ledgers"):
        if row["undecidable"] is not False or row["ledger_id"] is None:
            continue
        copies = judged.get((row["scope_id"], row["ledger_id"]), {"missing": [], "unknown": [], "doubts": []})
        yield Ledger(
            row["ledger_id"], row["state"], row["ensemble_size"], row["write_quorum"], row["ack_quorum"],
            row["last_entry_id"],
            tuple((record["first_entry_id"], tuple(record["ensemble"])) for record in row["segments"]),
            {record["bookie_id"]: entries(record["groups"]) for record in copies["missing"]},
            frozenset(record["bookie_id"] for record in copies["unknown"]),
            bool(copies["doubts"]),
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


def test_simulated_losses_equal_an_entry_by_entry_count(audited: FinishedRun) -> None:
    ledgers = list(ledgers_of(audited))
    bookies = audited.table("bookies")
    members = sorted({name for ledger in ledgers for _, ensemble in ledger.segments for name in ensemble})
    unread = {row["bookie_id"] for row in bookies if row["read"] == "unread"}
    down = {row["bookie_id"] for row in bookies if row["registered"] is None}
    has_registered = len(down) < len(bookies)
    failures = [{name} for name in members] + [set(pair) for pair in combinations(members, 2)][:PAIRS]
    for lost in failures:
        failure = simulate_failure(RunReader(audited.out), [(Level.BOOKIE, sorted(lost))]).failure
        assert failure is not None
        views = {
            "promise": (failure.promise.sure, set()),
            "today": (failure.today.sure, down if has_registered else set()),
            "today_possible": (failure.today.possible, down),
        }
        for view, (outcome, silent) in views.items():
            expected: Counter[tuple[WindowOutcome, str]] = Counter()
            for ledger in ledgers:
                expected += plain_fates(ledger, lost, set(), unread, silent, view)
            assert counts_of(outcome) == expected, (lost, view)
