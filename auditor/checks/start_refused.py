"""Bookies that would refuse to start if they were restarted."""

from auditor.checks.bookie_findings import bookie_finding, suspect_or_confirmed
from auditor.checks.check import (
    ActionKind,
    Basis,
    Findings,
    HoldRule,
    HoldTarget,
    Roster,
    Severity,
    TableRow,
    roster_check,
)
from auditor.model.cookie import ConfigSource
from auditor.model.start_refusal import Fault

_REASONS_OF_ABSENT_COOKIES = (Fault.NOT_IN_STORE, Fault.NOT_EMPTY)
"""Faults that come, or may come, from a cookie that is missing in the metadata store."""


@roster_check(
    Severity.ERROR,
    rests_on=Basis.DISKS,
    do_now="do not start {bookies} again until the cause is fixed",
    holds=(HoldRule(HoldTarget.BOOKIE, (ActionKind.START, ActionKind.REBUILD_INDEX)),),
)
def start_refused(roster: Roster) -> Findings:
    """A bookie would refuse its next start because of its cookies or its journal.

    What it finds:
        Reports bookies for which a cause below applies, unless `cookie-missing` or `instance-id-missing`
        reports the same cause. The severity is `note` if the cluster does not know the bookie. Causes:
        - Cookies that LegacyCookieValidation rejects, or data without any cookie.
        - `journal-gone`: the file that lastMark points to is missing.
        - `journal-invalid-record`, `journal-unreadable`: a damaged record or file follows lastMark.
        - `index-not-in-cookie`: cookies from before 4.16 lack the separate index directories, so later
          releases refuse them. The severity is `note` while the bookie runs.
        - `index-count`: DbLedgerStorage has unequal numbers of index and ledger directories.

    Why it matters:
        If the bookie runs now, it will not come back from its next restart.

    How sure:
        Confirmed by the server's own rules, with a configuration that is inferred from the cookies. Suspect
        if the bookie runs and its journal is damaged or newer than lastMark: lastMark may move past the
        fault. Suspect if the answer depends on the BookKeeper release. Suspect if journal files may be
        missing only in the audited copy.

    What to do:
        Remove the cause before a restart. Never copy VERSION from one directory to another.

        - Put a missing journal file back. If the file is lost, the entries that were only in it are lost
          too. Have the bookie's ledgers copied, and set the bookie up again. Do not remove lastMark: the
          bookie would start and hide the loss.
        - If you skip a damaged journal with the setting in `way_out`, have the ledgers checked and copied
          afterwards.
        - Before an upgrade to 4.16, change cookies or configuration as `way_out` says.

    Commands:
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE`.

    Limits:
        The audit assumes the configuration of the last start, unless the file of `--bookie-conf` has the
        bookie's id or directories. Only the cookie under the bookie's own id counts. If no directory has a
        journal file, `journal-gone` is not reported. A fault in a directory is found only if the directory
        was given. Servers with dataIntegrityChecking use other rules.
    """
    bookies_by_id = {row["bookie_id"]: row for row in roster.bookies}
    readable_bookie_ids = {row["bookie_id"] for row in roster.certain_bookies}
    for row in roster.starts:
        bookie = bookies_by_id.get(row["bookie_id"])
        if row["fault"] in _REASONS_OF_ABSENT_COOKIES and row["bookie_id"] not in readable_bookie_ids:
            continue  # cookies could not all be listed, so the store may have this one
        if row["error"] is None or bookie is None or _has_other_finding(row, bookie, roster):
            continue
        expansion_facts = {
            field_name: row[f"expansion_{field_name}"] for field_name in ("error", "fault", "reason", "paths")
        }
        start_facts = {field_name: row[field_name] for field_name in ("error", "fault", "paths", "stored_id")}
        configuration = {
            field_name: row[field_name]
            for field_name in ("source", "agreed", "journal_dirs", "ledger_dirs", "index_dirs")
        }
        yield bookie_finding(
            row["bookie_id"],
            f"{row['bookie_id']} would not restart: "
            f"{row['reason']}{_configuration_text(row)}{_remedy_text(row)}",
            {
                **start_facts,
                "way_out": row["way_out"],
                "with_expansion": expansion_facts if expansion_facts["error"] is not None else None,
                "configuration": configuration,
            },
            severity=None
            if _is_in_metadata(bookie) and not _fails_after_upgrade(row, bookie)
            else Severity.NOTE,
            confidence=suspect_or_confirmed(row["certain"] is False),
        )


def _remedy_text(start_forecast: TableRow) -> str:
    return "" if start_forecast["way_out"] is None else f"; {start_forecast['way_out']}"


def _configuration_text(start_forecast: TableRow) -> str:
    """Return a note if the bookie's configuration comes from ``--bookie-conf``, else an empty text."""
    return (
        " (directories and id from --bookie-conf)"
        if start_forecast["source"] == ConfigSource.CONFIG_FILE
        else ""
    )


def _fails_after_upgrade(start_forecast: TableRow, bookie: TableRow) -> bool:
    """Return whether the bookie runs now and would fail to start only with a later server release."""
    return start_forecast["fault"] == Fault.INDEX_NOT_IN_COOKIE and bookie["registered"] is not None


def _is_in_metadata(bookie: TableRow) -> bool:
    """Return whether an ensemble, a cookie or a registration still names the bookie."""
    return bookie["named"] or bookie["has_cookie"] or bookie["registered"] is not None


def _has_other_finding(start_forecast: TableRow, bookie: TableRow, roster: Roster) -> bool:
    """Return whether `cookie-missing` or `instance-id-missing` already reports why the start would fail."""
    if start_forecast["fault"] == "not-in-store":
        return bookie["registered"] is not None and not bookie["has_cookie"]
    return roster.cluster.instance_id_missing and start_forecast["fault"] in (
        "store-instance",
        "version-instance",
    )
