"""Clusters in which no process of AutoRecovery is elected auditor."""

from auditor.checks.bookie_findings import bookie_finding
from auditor.checks.check import Basis, Confidence, Findings, Need, Roster, Severity, roster_check
from auditor.model.repair import waiting_words


@roster_check(
    Severity.WARNING,
    rests_on=Basis.METADATA,
    needs={Need.MARKS, Need.ALL_MARKS, Need.REGISTRATIONS},
    do_now="see whether AutoRecovery runs anywhere",
)
def no_auditor(roster: Roster) -> Findings:
    """No auditor is elected, or its vote is of a bookie that is down.

    What it finds:
        Clusters with several bookies whose store has a place for replication and no live vote for auditor, or
        a vote of a bookie with a cookie that is not registered.

    Why it matters:
        Only the auditor notices a lost bookie and marks its ledgers. Each AutoRecovery process votes and runs
        a worker, so without a vote there is no worker either.

    How sure:
        Confirmed if no scan saw a live vote. Unconfirmed if the vote is of a bookie that is down:
        AutoRecovery can run as its own process there, and a vote outlives its process for a session timeout.

    What to do:
        See whether AutoRecovery is configured (autoRecoveryDaemonEnabled, or processes of its own) and look
        at its log.

    Commands:
        - `bookkeeper shell whoisauditor`.
        - `bookkeeper shell queryautorecoverystatus`.

    Limits:
        A store without a znode `underreplication` is left out: AutoRecovery never ran, or the saved metadata
        lacks it. So are clusters with a single bookie or without ledgers.
    """
    state = roster.cluster.repair
    names_ledgers = any(row["named"] for row in roster.bookies)
    if not state.sees_autorecovery or len(roster.bookies) < 2 or not names_ledgers:
        return
    evidence = {
        "auditor": state.auditor,
        "votes": state.votes,
        "waiting": state.waiting,
        "queued": state.queued,
    }
    if not state.votes:
        message = f"no auditor is elected, and no worker runs; {waiting_words(state)}"
        yield bookie_finding(None, message, evidence)
    elif state.auditor_down:
        message = (
            f"the auditor's vote is of {state.auditor}, which is not registered: the auditor may be gone, or "
            f"run beside that bookie; {waiting_words(state)}"
        )
        yield bookie_finding(None, message, evidence, confidence=Confidence.SUSPECT)
