"""Bookies that would not start again."""

from auditor.checks.bookie_findings import bookie_finding, suspect_where
from auditor.checks.check import Basis, Findings, Roster, Row, Severity, roster_check


@roster_check(
    Severity.ERROR, rests_on=Basis.DISKS, do_now="do not restart {bookies} until the cause is mended"
)
def start_refused(roster: Roster) -> Findings:
    """A bookie would refuse its next start because of its cookies, or of a journal file that is gone.

    What it finds:
        Bookies that the cluster knows and whose cookies, in the store and on their disks, would end their
        next start with an exception (LegacyCookieValidation). The evidence has the exception, what is the
        matter and with which directories, the same with allowStorageExpansion, and where the configured
        directories were inferred from. Also bookies whose cookies are right and whose journal lacks the file
        that lastMark points at (`journal-gone`): 4.17.2 ends with "Recovery log ... is missing", after a
        clean stop too. With cookies it is the consequence, and stands besides the finding that is its
        cause: disk-id-mismatch, disk-version-missing, instance-mismatch, cookie-key-mismatch and the others.
        It is left out where that finding says the same of the bookie's start: cookie-missing, and
        instance-id-missing for the whole cluster.

    Why it matters:
        The bookie may run on as if nothing were wrong. The next restart, perhaps that of a whole rack during
        an upgrade, takes it away, and its ledgers have one copy less until somebody has understood the
        stack trace.

    How sure:
        Confirmed by the server's own rules, followed on what was read; the configuration is inferred from the
        cookies. Suspect where a running bookie has a newer journal file than the one that is gone, for its
        mark may have moved there, and where a bookie's copy has no journal file at all while others have:
        they may have been left out. Where no copy has any, nothing is said.

    What to do:
        Mend the cause before the restart; do not restart the bookie until then. Never copy VERSION from one
        directory to another to make a bookie start. A journal file that is gone: put it back. If it is lost,
        so are the entries that were only in it: have the bookie's ledgers copied, and set it up anew. Without
        lastMark it starts, replays all journals that are left, and does not say what it lost.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.

    Limits:
        The configuration is inferred from what the bookie wrote when it last started; a change that it has
        not started with is not seen. Only the cookie under its own id is looked at, not those of other ids
        that its host has. Where directories were not given to the audit, only a refusal that holds whatever
        is in them is reported. A bookie with dataIntegrityChecking is stricter or milder than this.
    """
    known = {
        row["bookie_id"]: row
        for row in roster.bookies
        if row["named"] or row["has_cookie"] or row["registered"] is not None
    }
    for row in roster.starts:
        bookie = known.get(row["bookie_id"])
        if row["error"] is None or bookie is None or _told_elsewhere(row, bookie, roster):
            continue
        grown = {name: row[f"expansion_{name}"] for name in ("error", "fault", "reason", "paths")}
        facts = {name: row[name] for name in ("error", "fault", "paths", "stored_id")}
        configuration = {
            name: row[name] for name in ("source", "agreed", "journal_dirs", "ledger_dirs", "index_dirs")
        }
        yield bookie_finding(
            row["bookie_id"],
            f"{row['bookie_id']} would not start again: {row['reason']}",
            {
                **facts,
                "with_expansion": grown if grown["error"] is not None else None,
                "configuration": configuration,
            },
            confidence=suspect_where(row["certain"] is False),
        )


def _told_elsewhere(start: Row, bookie: Row, roster: Roster) -> bool:
    """Whether cookie-missing or instance-id-missing says it, once for all that it stops."""
    if start["fault"] == "not-in-store":
        return bookie["registered"] is not None and not bookie["has_cookie"]
    return roster.cluster.instance_id_missing and start["fault"] in ("store-instance", "version-instance")
