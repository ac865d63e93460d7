"""Check of access to bookies: registered bookies are asked for an entry that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditor.model.amounts import and_more, plural
from auditor.model.options import AuditOptions
from auditor.model.report import EXIT_CLEAN, EXIT_NOT_COVERED
from auditor.reports.doctor import BOOKIES_TOPIC, AnswerLine, AnswerState
from auditor.sources.bookies.rpc.access import BookieAccess
from auditor.sources.bookies.rpc.connection import Address
from auditor.sources.bookies.rpc.probe import ProbeOutcome, probe_bookies

MAX_BOOKIES_ASKED = 20
MAX_BOOKIES_NAMED = 20


def access_lines(
    registration_rows: Sequence[Mapping[str, object]],
    has_rpc_source: bool,
    access: BookieAccess,
    options: AuditOptions,
) -> Iterator[AnswerLine]:
    """Ask registered bookies for an entry that does not exist, and yield lines about their answers.

    Args:
        registration_rows: Rows of the table ``registrations``.
        has_rpc_source: whether ``rpc:`` is a source. If True, a bookie without an answer counts as unread. If
            False, the audit asks bookies only for entries that seem to be missing.
        access: The logins of bookies.
        options: Options of the audit.
    """
    used_registrations = [row for row in registration_rows if row["used"]]
    if not used_registrations and not has_rpc_source:
        return  # no registered bookie can be asked
    problems = {
        str(row["bookie_id"]): f"the registration has no usable address ({row['unresolved']})"
        for row in used_registrations
        if row["host"] is None
    }
    addresses: dict[str, Address] = {
        str(row["bookie_id"]): (str(row["host"]), int(str(row["port"])))
        for row in used_registrations
        if row["host"] is not None
    }
    asked_addresses = dict(list(addresses.items())[:MAX_BOOKIES_ASKED])
    probe_results = probe_bookies(asked_addresses, access, options.timeout)
    problems |= {
        name: f"{probe_result.outcome}: {probe_result.reason}"
        for name, probe_result in probe_results.items()
        if probe_result.outcome is not ProbeOutcome.SERVED
    }
    served_count = sum(probe_result.outcome is ProbeOutcome.SERVED for probe_result in probe_results.values())
    not_asked_text = (
        f" ({len(addresses) - len(asked_addresses):,} more were not asked)"
        if len(addresses) > len(asked_addresses)
        else ""
    )
    answers_text = f"{served_count:,} of {plural(len(asked_addresses), 'registered bookie')} answered a read"
    text = f"{answers_text}{not_asked_text}, {_access_text(access)}"
    exit_code = EXIT_NOT_COVERED if has_rpc_source else EXIT_CLEAN
    if problems or not used_registrations:
        consequence = (
            "copies on bookies that did not answer are unknown"
            if has_rpc_source
            else "the audit cannot ask bookies that did not answer about entries that seem to be missing"
        )
        yield BOOKIES_TOPIC.warn("access", f"{text}; {consequence}", None, exit_code)
    else:
        yield BOOKIES_TOPIC.ok("access", text)
    problem_texts = [f"{name}: {problems[name]}" for name in sorted(problems)[:MAX_BOOKIES_NAMED]]
    for problem_text in problem_texts + and_more(len(problems) - MAX_BOOKIES_NAMED):
        yield BOOKIES_TOPIC.warn("no access", problem_text, None, exit_code)
    yield _request_limits_line(options)


def _access_text(access: BookieAccess) -> str:
    """Return a phrase about encryption and login of connections to bookies."""
    login_text = "" if access.sasl is None else f", with a login by {access.sasl.mechanism}"
    if access.tls is None:
        return (
            f"without TLS{login_text}: bookies return entries unencrypted; add [bookies.tls] to the "
            "credentials file to encrypt them"
        )
    if not access.tls.verify:
        return f"over TLS without verifying the bookie{login_text}"
    return f"over TLS{login_text}"


def _request_limits_line(options: AuditOptions) -> AnswerLine:
    rate_text = (
        f"{options.bookie_rate_limit:,.0f} requests a second"
        if options.bookie_rate_limit
        else "no rate limit"
    )
    text = (
        f"for each bookie, {rate_text}, and at most {options.bookie_in_flight} unanswered requests at a time"
    )
    return AnswerLine(
        "bookies", "rates", AnswerState.OK if options.bookie_rate_limit else AnswerState.WARN, text
    )
