"""Check of access to bookies: each registered bookie gets one read of an entry that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditor.model.amounts import and_more, plural
from auditor.model.options import AuditOptions
from auditor.model.report import CLEAN, NOT_COVERED
from auditor.reports.doctor import BOOKIES, Line, State
from auditor.sources.bookies.rpc.access import BookieAccess
from auditor.sources.bookies.rpc.connection import Address
from auditor.sources.bookies.rpc.probe import Reception, probe_bookies

MAX_BOOKIES_ASKED = 20
MAX_BOOKIES_NAMED = 20


def access_lines(
    registered: Sequence[Mapping[str, object]], rpc: bool, access: BookieAccess, options: AuditOptions
) -> Iterator[Line]:
    """Yield lines about the answers of registered bookies.

    Args:
        registered: Rows of the table ``registrations``.
        rpc: True if ``rpc:`` is a source. A bookie that does not answer then counts as unread. If False,
            the audit asks bookies only for entries that seem to be missing.
        access: The logins of bookies.
        options: Options of the audit.
    """
    used_rows = [row for row in registered if row["used"]]
    if not used_rows and not rpc:
        return  # nobody runs who could be asked
    problems = {
        str(row["bookie_id"]): f"gives no address ({row['unresolved']})"
        for row in used_rows
        if row["host"] is None
    }
    addresses: dict[str, Address] = {
        str(row["bookie_id"]): (str(row["host"]), int(str(row["port"])))
        for row in used_rows
        if row["host"] is not None
    }
    asked_addresses = dict(list(addresses.items())[:MAX_BOOKIES_ASKED])
    results = probe_bookies(asked_addresses, access, options.timeout)
    problems |= {
        name: f"{result.reception}: {result.reason}"
        for name, result in results.items()
        if result.reception is not Reception.SERVED
    }
    served_count = sum(result.reception is Reception.SERVED for result in results.values())
    of_all = (
        f" ({len(addresses) - len(asked_addresses):,} more were not asked)"
        if len(addresses) > len(asked_addresses)
        else ""
    )
    asked_of = f"{served_count:,} of {plural(len(asked_addresses), 'registered bookie')} asked"
    text = f"{asked_of} answer a read{of_all}, {_access_words(access)}"
    code = NOT_COVERED if rpc else CLEAN
    if problems or not used_rows:
        consequence = (
            "copies on the other bookies are unknown"
            if rpc
            else "missing entries on the other bookies cannot be confirmed by asking these bookies"
        )
        yield BOOKIES.warn("access", f"{text}; {consequence}", None, code)
    else:
        yield BOOKIES.ok("access", text)
    details = [f"{name}: {problems[name]}" for name in sorted(problems)[:MAX_BOOKIES_NAMED]]
    for detail in details + and_more(len(problems) - MAX_BOOKIES_NAMED):
        yield BOOKIES.warn("no access", detail, None, code)
    yield _rates(options)


def _access_words(access: BookieAccess) -> str:
    """Return a phrase about encryption and login of connections to bookies."""
    login = "" if access.sasl is None else f", with a login by {access.sasl.mechanism}"
    if access.tls is None:
        return (
            f"without TLS{login}: entries that bookies return are unencrypted, unless [bookies.tls] is given"
        )
    if not access.tls.verify:
        return f"over TLS without verifying the bookie{login}"
    return f"over TLS{login}"


def _rates(options: AuditOptions) -> Line:
    rate = (
        f"{options.bookie_rate_limit:,.0f} requests a second"
        if options.bookie_rate_limit
        else "no rate limit"
    )
    text = f"{rate} to one bookie, at most {options.bookie_in_flight} unanswered requests at a time"
    return Line("bookies", "rates", State.OK if options.bookie_rate_limit else State.WARN, text)
