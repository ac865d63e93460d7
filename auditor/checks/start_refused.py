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
        Bookies whose next start would end with an exception because of their cookies in the store and on disk
        (LegacyCookieValidation); a note if the cluster does not know the bookie. The evidence has the
        exception, its cause and directories, the same with allowStorageExpansion, and where the configuration
        was inferred from. Also bookies that cannot replay their journal: the file that lastMark points at is
        gone (`journal-gone`), or a damaged record or file lies behind the mark (`journal-invalid-record`,
        `journal-unreadable`). Also separate index directories that cookies do not name, as releases before
        4.16 write them (`index-not-in-cookie`): from 4.16 on they refuse to start; a note while the bookie
        runs. Also other numbers of index and of ledger directories on DbLedgerStorage (`index-count`), and
        data without any cookie, as an unfinished change of address leaves it. It stands beside its cause,
        such as disk-id-mismatch or instance-mismatch, but not beside cookie-missing, or instance-id-missing
        for the cluster, which say the same.

    Why it matters:
        The bookie runs on as if nothing were wrong. Its next restart, perhaps of a whole rack in an upgrade,
        takes it away.

    How sure:
        Confirmed by the server's own rules; the configuration is inferred from the cookies. Suspect where a
        running bookie has a newer journal file than the missing one, or a damaged journal, for its mark may
        move past that; where the release decides; and where only this copy has no journal file. Where no copy
        has any, nothing is reported.

    What to do:
        Remove the cause before the restart; do not restart the bookie until then. Never copy VERSION from one
        directory to another to make a bookie start. Put a missing journal file back. If it is lost, so are
        the entries that only it had: have the bookie's ledgers copied, and set it up anew. Without lastMark
        it starts, replays all journals that are left, and does not say what it lost. The setting `way_out` of
        the evidence skips a record that ends the replay with an IOException, and all that follows in that
        file; have its ledgers checked and copied. Before an upgrade to 4.16 or later write index directories
        into the cookies, or take them out of the configuration (`way_out`).

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.

    Limits:
        The configuration is inferred from the bookie's last start, unless --bookie-conf is its file: it names
        the bookie's id, or, less sure, directories of its cookies. Only the cookie under its own id is looked
        at. If directories were not given, only a refusal that holds whatever is in them is reported. A bookie
        with dataIntegrityChecking is stricter or milder.
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
