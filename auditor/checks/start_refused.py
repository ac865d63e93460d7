"""Bookies that would not start again."""

from auditor.checks.bookie_findings import bookie_finding, suspect_where
from auditor.checks.check import (
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    Roster,
    Row,
    Severity,
    roster_check,
)
from auditor.model.cookie import Source
from auditor.model.start_refusal import Fault

_OF_ABSENT_COOKIES = (Fault.NOT_IN_STORE, Fault.NOT_EMPTY)
"""Faults that rest on the absence of a cookie in the store, or may."""


@roster_check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    do_now="do not start {bookies} again until the cause is mended",
    holds=(HoldRule(HoldTarget.BOOKIE, (ActionKind.START, ActionKind.REBUILD_INDEX)),),
)
def start_refused(roster: Roster) -> Findings:
    """A bookie would refuse its next start because of its cookies, or of a journal file that is gone.

    What it finds:
        Bookies, registered or not, whose cookies, in the store and on their disks, would end their next start
        with an exception (LegacyCookieValidation). A note if the cluster does not know the bookie: nobody
        registered it, no ledger names it, and the store has no cookie of it. The evidence has the exception,
        what is the matter and with which directories, the same with allowStorageExpansion, and where the
        configured directories were inferred from. Also bookies whose cookies are right and that cannot replay
        their journal: it lacks the file that lastMark points at (`journal-gone`), or the replay ends at a
        damaged record or file behind the mark (`journal-invalid-record`, `journal-unreadable`). Also bookies
        with index directories apart that their cookies do not name, as releases before 4.16 write them
        (`index-not-in-cookie`): from 4.16 on they refuse to start; a note while the bookie runs; or with
        other than as many index as ledger directories on DbLedgerStorage (`index-count`). Also bookies
        with data and without any cookie, as a change of address that was not finished leaves them. With
        cookies it is the consequence, and stands besides the finding that is its cause: disk-id-mismatch,
        disk-version-missing, instance-mismatch, cookie-key-mismatch and the others. It is left out where that
        finding says the same of the bookie's start: cookie-missing, and instance-id-missing for the whole
        cluster.

    Why it matters:
        The bookie may run on as if nothing were wrong. The next restart, perhaps that of a whole rack during
        an upgrade, takes it away, and its ledgers have one copy less until somebody has understood the
        stack trace.

    How sure:
        Confirmed by the server's own rules, followed on what was read; the configuration is inferred from the
        cookies. Suspect where a running bookie has a newer journal file than the one that is gone, for its
        mark may have moved there, where the journal of a running bookie is damaged, for a clean stop moves
        its mark past that, where the release decides, and where a bookie's copy has no journal file at all
        while others have: they may have been left out. Where no copy has any, nothing is said.

    What to do:
        Mend the cause before the restart; do not restart the bookie until then. Never copy VERSION from one
        directory to another to make a bookie start. A journal file that is gone: put it back. If it is lost,
        so are the entries that were only in it: have the bookie's ledgers copied, and set it up anew. Without
        lastMark it starts, replays all journals that are left, and does not say what it lost. A record that
        ends the replay with an IOException can be skipped: the evidence names the setting as `way_out`. The
        bookie then lacks all that follows in that file; have its ledgers checked and copied. Before an
        upgrade to 4.16 or later write index directories into the cookies, or take them out of the
        configuration, as `way_out` says.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.

    Limits:
        The configuration is inferred from what the bookie wrote when it last started, unless --bookie-conf is
        its file: it names the bookie's id, or, less sure, directories of its cookies. Only the cookie under
        its own id is looked at, not those of other ids that its host has. Where directories were not given to
        the audit, only a refusal that holds whatever is in them is reported. A bookie with
        dataIntegrityChecking is stricter or milder than this.
    """
    bookies = {row["bookie_id"]: row for row in roster.bookies}
    listed = {row["bookie_id"] for row in roster.clear_bookies}
    for row in roster.starts:
        bookie = bookies.get(row["bookie_id"])
        if row["fault"] in _OF_ABSENT_COOKIES and row["bookie_id"] not in listed:
            continue  # the store may have its cookie all the same
        if row["error"] is None or bookie is None or _told_elsewhere(row, bookie, roster):
            continue
        grown = {name: row[f"expansion_{name}"] for name in ("error", "fault", "reason", "paths")}
        facts = {name: row[name] for name in ("error", "fault", "paths", "stored_id")}
        configuration = {
            name: row[name] for name in ("source", "agreed", "journal_dirs", "ledger_dirs", "index_dirs")
        }
        yield bookie_finding(
            row["bookie_id"],
            f"{row['bookie_id']} would not start again: {row['reason']}{_origin(row)}{_way_out(row)}",
            {
                **facts,
                "way_out": row["way_out"],
                "with_expansion": grown if grown["error"] is not None else None,
                "configuration": configuration,
            },
            severity=None if _is_known(bookie) and not _is_upgrade(row, bookie) else Severity.NOTE,
            confidence=suspect_where(row["certain"] is False),
        )


def _way_out(start: Row) -> str:
    return "" if start["way_out"] is None else f"; {start['way_out']}"


def _origin(start: Row) -> str:
    """Where the configuration is from, if it is not the one that the cookies tell."""
    return " (directories and id of --bookie-conf)" if start["source"] == Source.CONFIGURATION else ""


def _is_upgrade(start: Row, bookie: Row) -> bool:
    """Whether a bookie runs, and no release but a later one would refuse it a start."""
    return start["fault"] == Fault.INDEX_NOT_IN_COOKIE and bookie["registered"] is not None


def _is_known(bookie: Row) -> bool:
    """Whether anything but its own disks knows a bookie; nothing knows one that was taken out for good."""
    return bookie["named"] or bookie["has_cookie"] or bookie["registered"] is not None


def _told_elsewhere(start: Row, bookie: Row, roster: Roster) -> bool:
    """Whether cookie-missing or instance-id-missing says it, once for all that it stops."""
    if start["fault"] == "not-in-store":
        return bookie["registered"] is not None and not bookie["has_cookie"]
    return roster.cluster.instance_id_missing and start["fault"] in ("store-instance", "version-instance")
