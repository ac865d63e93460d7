"""Words and sentences for a finding: its object, missing entries, confidence, age, and cause."""

import re
import shlex
from collections.abc import Callable, Sequence
from datetime import date

from auditor.model.acceptance import DATA_LOSS, MAX_ACCEPTED_DAYS, last_acceptance_day, missing_digest
from auditor.model.amounts import and_more, first_names, format_time, plural
from auditor.model.finding import ChangeStatus, Confidence, Finding, Group, Missing
from auditor.model.ledger_id import LedgerId
from auditor.model.report import Report
from auditor.model.run_facts import FindingCause
from auditor.model.states import Change, LedgerClass
from auditor.reports.plain_text import printable

MAX_BOOKIES_SHOWN = 5
"""Largest number of bookies with missing entries that the text of one finding names."""

MAX_LISTED_RUNS = 2
"""Largest number of runs of entries that a text lists one by one. Of more runs it shows the period."""

MAX_GROUPS_SHOWN = 8
"""Largest number of groups that the text of a set of entries shows. The jsonl report has all groups."""


def finding_line(finding: Finding, change_status: ChangeStatus | None = None) -> str:
    """Return a finding as one line for a pipe: SEVERITY check OBJECT: message [confidence, ...].

    ``change_status`` is how the finding changed since the previous run. None: the run did not record it.

    >>> from auditor.model.finding import Confidence, Severity
    >>> found = Finding("stray-file", Severity.NOTE, Confidence.SUSPECT, bookie_id="bk1:3181", message="x")
    >>> finding_line(found, ChangeStatus("new", 1_795_237_669_000))
    'note stray-file bookie bk1:3181: x [suspect, new]'
    """
    scope, ledger, bookie = _subject_labels(finding)
    subject_text = " ".join(filter(None, (ledger, ledger and scope and f"of {scope}", bookie))) or "cluster"
    text = f"{subject_text}: {finding.message}"
    if is_sentence_on_subject(finding) and ledger is not None and finding.message.startswith(ledger):
        text = finding.message
    elif (
        is_sentence_on_subject(finding)
        and finding.bookie_id
        and finding.message.startswith(finding.bookie_id)
    ):
        text = f"bookie {finding.message}"
    message_text = "; ".join([text, *entry_texts(finding, MAX_BOOKIES_SHOWN)])
    tags = ", ".join([str(finding.confidence), *_change_status_texts(change_status)])
    return printable(" ".join(f"{finding.severity} {finding.id} {message_text} [{tags}]".split()))


def subject_texts(finding: Finding) -> list[str]:
    """Return the objects of a finding, from the widest to the narrowest. Ledger id scope 0 is left out.

    >>> from auditor.model.finding import Confidence, Severity
    >>> subject_texts(Finding("orphan-ledger", Severity.NOTE, Confidence.CONFIRMED, 0, 42, "bk1:3181"))
    ['ledger 42', 'bookie bk1:3181']
    """
    return [subject_text for subject_text in _subject_labels(finding) if subject_text is not None]


def is_sentence_on_subject(finding: Finding) -> bool:
    """Return whether the message of a finding is a whole sentence that names all objects of the finding."""
    subject_patterns = (re.escape(pattern.removeprefix("bookie ")) for pattern in subject_texts(finding))
    starts_with_subject = finding.message[:1].isalpha() or finding.message.startswith(
        finding.bookie_id or " "
    )
    return starts_with_subject and all(
        re.search(rf"(?<![\w.-]){part}(?![\w.-]|:\w)", finding.message) for part in subject_patterns
    )


def tag_texts(finding: Finding, change_status: ChangeStatus | None) -> list[str]:
    """Return a finding's confidence, its change, the day when it was first seen, and its suppression.

    Default values (confirmed, unchanged, not suppressed) are left out.

    >>> from auditor.model.finding import Confidence, Severity
    >>> status = ChangeStatus("worse", 1_795_237_669_000, "known")
    >>> tag_texts(Finding("x", Severity.NOTE, Confidence.SUSPECT), status)
    ['suspect', 'worse', 'since 2026-11-21', 'suppressed: known']
    """
    uncertainty_tags = [str(finding.confidence)] if finding.confidence != Confidence.CONFIRMED else []
    return uncertainty_tags + _change_status_texts(change_status)


def message_texts(finding: Finding, change_status: ChangeStatus | None) -> tuple[str, str, str]:
    """Return the objects of a finding, its message, and its tags in brackets, each as a text.

    The text of the objects is empty if the message names them.

    >>> from auditor.model.finding import Confidence, Severity
    >>> message_texts(Finding("x", Severity.NOTE, Confidence.SUSPECT, 0, 42, message="lies"), None)
    ('ledger 42', 'lies', ' (suspect)')
    """
    # A message that begins with no letter could begin a list or a heading of Markdown.
    subject_text = "" if is_sentence_on_subject(finding) else ", ".join(subject_texts(finding)) or "cluster"
    tags_text = ", ".join(tag_texts(finding, change_status))
    return subject_text, finding.message, f" ({tags_text})" if tags_text else ""


def missing_text(finding: Finding, max_bookies: int) -> str:
    """Return the entries that the first ``max_bookies`` bookies lack, as ranges. Empty if nothing is missing.

    >>> from auditor.model.finding import Confidence, Missing, Severity
    >>> part = Missing("bk1:3181", ((4, 4, 1, 0),), 1)
    >>> missing_text(Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, missing=(part,)), 5)
    'bk1:3181 lacks 4 (1 entry)'
    """
    return "; ".join(_missing_texts(finding.missing, max_bookies))


def _missing_texts(missing_entries: Sequence[Missing], max_bookies: int) -> list[str]:
    """Return a text for each of the first ``max_bookies`` bookies, on the entries that the bookie lacks.

    If there are further bookies, the last text has their number.
    """
    bookie_texts = [
        f"{bookie_missing.bookie_id} lacks {entries_text(bookie_missing.groups, bookie_missing.count)}"
        for bookie_missing in missing_entries[:max_bookies]
    ]
    return bookie_texts + and_more(len(missing_entries) - max_bookies, " bookies")


_CLASS_TEXTS: dict[str, str] = {
    LedgerClass.ENTRY_LOST: "no copy left",
    LedgerClass.BELOW_ACK_QUORUM: "below ack quorum",
    LedgerClass.BELOW_WRITE_QUORUM: "below write quorum",
}


def class_groups(finding: Finding) -> tuple[Group, ...]:
    """Return the entries that give a ledger its class. Empty if the finding is not about a class.

    For the class entry-lost, for example, these are the lost entries.
    """
    class_entries = finding.evidence.get("class_entries") if finding.id in _CLASS_TEXTS else None
    return tuple(
        (first_start, last_start, size, period)
        for first_start, last_start, size, period in (class_entries or {}).get("groups", ())
    )


def class_entries_text(finding: Finding) -> str:
    """Return the entries that give a ledger its class, as ranges.

    For the class entry-lost, for example, these are the lost entries. Empty if the finding is not about a
    class.

    >>> from auditor.model.finding import Severity
    >>> seen = {"class_entries": {"groups": [[4, 4, 5, 0]], "count": 5}}
    >>> lost = Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, 0, 42, evidence=seen)
    >>> class_entries_text(lost)
    'no copy left: 4-8 (5 entries)'
    """
    groups = class_groups(finding)
    if not groups:
        return ""
    class_reason_text = "in no index" if _has_entries_in_logs(finding) else _CLASS_TEXTS[finding.id]
    return f"{class_reason_text}: {entries_text(groups, finding.evidence['class_entries']['count'])}"


def _has_entries_in_logs(finding: Finding) -> bool:
    """Return whether entry logs still have some of a finding's lost entries, although no index has them."""
    entry_logs = finding.evidence.get("in_entry_logs") or ()
    return finding.id == LedgerClass.ENTRY_LOST and any(log["lost_entries"] for log in entry_logs)


def positions_text(finding: Finding) -> str:
    """Return the entries that give a ledger its class, as positions in the ledger's Pulsar topic.

    Returns an empty text if no Pulsar topic is known to own the ledger.

    >>> from auditor.model.finding import Severity
    >>> owner = dict(application="pulsar", kind="data", tenant="shop", namespace="orders", topic="returns")
    >>> seen = {"class_entries": {"groups": [[4, 4, 5, 0]], "count": 5}, "owner": owner}
    >>> positions_text(Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, 0, 42, evidence=seen))
    'topic shop/orders/returns: positions 42:4 to 42:8'
    """
    owner, groups = finding.evidence.get("owner"), class_groups(finding)
    if not owner or not groups or (owner["application"], owner["kind"]) != ("pulsar", "data"):
        return ""
    topic = "/".join(
        owner[owner_level] for owner_level in ("tenant", "namespace", "topic") if owner[owner_level]
    )
    range_text = _ranges_text(groups, lambda entry: f"{finding.ledger_id}:{entry}", " to ")
    return f"topic {topic}: positions {range_text}"


def entry_texts(finding: Finding, max_bookies: int) -> list[str]:
    """Return texts on the entries that a finding about a ledger concerns.

    The first texts have the entries that give the ledger its class, and the Pulsar positions of these
    entries. The other texts have the missing entries of at most ``max_bookies`` bookies, grouped by bookie.

    >>> from auditor.model.finding import Missing, Severity
    >>> lost = Missing("bk1", ((4, 4, 1, 0),), 1)
    >>> seen = {"class_entries": {"groups": [[4, 4, 1, 0]], "count": 1}}
    >>> entry_texts(Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, 0, 42, None, (lost,),
    ...                     evidence=seen), 5)
    ['no copy left: 4 (1 entry)', 'absent on bk1']
    """
    texts = [part for part in (class_entries_text(finding), positions_text(finding)) if part]
    # Bookies that lack exactly the entries in `texts` share one text, without a list of entries.
    groups = class_groups(finding)
    bookies_lacking_groups = [part.bookie_id for part in finding.missing if part.groups == groups]
    parts_with_other_groups = [part for part in finding.missing if part.groups != groups]
    return [
        *texts,
        *(
            [f"absent on {first_names(bookies_lacking_groups, max_bookies)}"]
            if bookies_lacking_groups
            else []
        ),
        *_missing_texts(parts_with_other_groups, max_bookies),
    ]


def command_for(finding: Finding, run: str) -> str | None:
    """Return the `bkaudit explain` command for the objects of a finding.

    None if the finding concerns the whole cluster.
    """
    explain_arguments = explain_arguments_for(finding)
    return (
        f"bkaudit explain {explain_arguments} --run {shlex.quote(printable(run))}"
        if explain_arguments
        else None
    )


def explain_arguments_for(finding: Finding) -> str:
    """Return the arguments of ``bkaudit explain`` for a finding.

    Empty if the finding concerns the whole cluster.

    >>> from auditor.model.finding import Confidence, Severity
    >>> down = Finding("bookie-down", Severity.WARNING, Confidence.CONFIRMED, bookie_id="bk 1:3181")
    >>> explain_arguments_for(down)
    "bookie 'bk 1:3181'"
    """
    if finding.ledger_id is not None:
        # The command line would take a number below 0 for an option.
        if finding.scope_id or finding.ledger_id < 0:
            qualified_name = LedgerId(finding.ledger_id, finding.scope_id or 0).qualified_name
            return f"ledger --ledger-qualified-name {qualified_name}"
        return f"ledger {finding.ledger_id}"
    if finding.bookie_id is not None:
        return f"bookie {shlex.quote(printable(finding.bookie_id))}"
    return ""


def _subject_labels(finding: Finding) -> tuple[str | None, str | None, str | None]:
    """Return scope (upper half of a 128-bit id), ledger and bookie of a finding in words; None if absent."""
    return (
        f"scope {finding.scope_id}" if finding.scope_id else None,
        f"ledger {finding.ledger_id}" if finding.ledger_id is not None else None,
        f"bookie {finding.bookie_id}" if finding.bookie_id is not None else None,
    )


def is_suppressed(change_status: ChangeStatus | None) -> bool:
    """Return whether a suppression names the finding."""
    return change_status is not None and change_status.suppressed is not None


def _change_status_texts(change_status: ChangeStatus | None) -> list[str]:
    if change_status is None:
        return []
    status_texts = [change_status.change] if change_status.change not in ("", Change.SAME) else []
    if change_status.change not in ("", Change.NEW):
        status_texts.append(f"since {format_time(change_status.first_seen)[:10]}")
    return status_texts + (
        [f"suppressed: {change_status.suppressed}"] if change_status.suppressed is not None else []
    )


def entries_text(groups: Sequence[Group], count: int) -> str:
    """Return a set of entries as text. ``groups`` has its BP-34 sequence groups, ``count`` its size.

    >>> entries_text([(1, 1, 2, 0), (4, 4, 5, 0)], 7)
    '1,2,4-8 (7 entries)'
    >>> entries_text([(0, 2997, 2, 3)], 2000)
    '0-1, 3-4, ... 2997-2998 (2,000 entries)'
    >>> entries_text([(5, 5, 1, 0)], 1)
    '5 (1 entry)'
    """
    return f"{_ranges_text(groups)} ({plural(count, 'entry', 'entries')})"


def _ranges_text(
    groups: Sequence[Group], entry_name: Callable[[int], str] = str, range_separator: str = "-"
) -> str:
    text = ""
    is_previous_single_range = True
    for group in groups[:MAX_GROUPS_SHOWN]:
        first_start, last_start, _, period = group
        is_single_range = period <= 0 or (last_start - first_start) // period < MAX_LISTED_RUNS
        range_text = (
            _entry_runs_text(group, entry_name, range_separator)
            if is_single_range
            else _periodic_text(group, entry_name, range_separator)
        )
        # The text of a periodic group contains a comma.
        separator = "," if is_previous_single_range and is_single_range else "; "
        text += (separator if text else "") + range_text
        is_previous_single_range = is_single_range
    remainder_text = (
        f" and {len(groups) - MAX_GROUPS_SHOWN:,} more ranges" if len(groups) > MAX_GROUPS_SHOWN else ""
    )
    return text + remainder_text


def _periodic_text(group: Group, entry_name: Callable[[int], str], range_separator: str) -> str:
    first_start, last_start, size, period = group
    run_texts = [
        entry_name(start) + (f"{range_separator}{entry_name(start + size - 1)}" if size > 1 else "")
        for start in (first_start, first_start + period, last_start)
    ]
    is_every_run_shown = last_start - first_start == 2 * period
    return f"{run_texts[0]}, {run_texts[1]},{' ' if is_every_run_shown else ' ... '}{run_texts[2]}"


def _entry_runs_text(group: Group, entry_name: Callable[[int], str], range_separator: str) -> str:
    first_start, last_start, size, _ = group
    return ",".join(
        _entry_run_text(run_start, size, entry_name, range_separator)
        for run_start in ([first_start] if first_start == last_start else [first_start, last_start])
    )


def _entry_run_text(run_start: int, size: int, entry_name: Callable[[int], str], range_separator: str) -> str:
    if size <= 2:
        return ",".join(entry_name(entry) for entry in range(run_start, run_start + size))
    return f"{entry_name(run_start)}{range_separator}{entry_name(run_start + size - 1)}"


def causes_of(report: Report) -> list[FindingCause]:
    """Return the causes that each explain more than one finding, the most urgent first."""
    return [cause for cause in report.run.causes or () if cause["count"] > 1]


def cause_sentence(cause: FindingCause) -> str:
    """Return a sentence on a cause, with the number of findings that it explains."""
    return f"{plural(cause['count'], 'finding')}: {cause['sentence']}"


def explained_findings_text(cause: FindingCause) -> str:
    """Return the checks whose findings follow from a cause, each with the number of these findings."""
    return ", ".join(
        f"{explained_finding['id']} {explained_finding['count']:,}" for explained_finding in cause["findings"]
    )


def suppression_entry(finding: Finding, today: date) -> str:
    """Return the TOML entry that accepts a finding from ``today`` on. The user fills in the reason.

    >>> from auditor.model.finding import Severity
    >>> found = Finding("bookie-down", Severity.WARNING, Confidence.CONFIRMED, message="bk1 is down",
    ...                 fingerprint="0123456789abcdef")
    >>> print(suppression_entry(found, date(2026, 11, 26)))
    # warning bookie-down: bk1 is down
    [[suppress]]
    fingerprint = "0123456789abcdef"
    reason = ""  # say why; an empty reason is refused
    until = 2026-12-03
    """
    is_data_loss = finding.urgency in DATA_LOSS
    digest = missing_digest(finding.missing) if is_data_loss else None
    latest_day_comment = (
        f"  # the latest day allowed, {MAX_ACCEPTED_DAYS} days from today" if is_data_loss else ""
    )
    lines = [
        f"# {printable(f'{finding.severity} {finding.id}: {finding.message}')}",
        "[[suppress]]",
        f'fingerprint = "{finding.fingerprint}"',
        *(
            [f'missing = "{digest}"  # exactly these missing entries; any others are a new loss']
            if digest
            else []
        ),
        'reason = ""  # say why; an empty reason is refused',
        f"until = {last_acceptance_day(today)}{latest_day_comment}",
    ]
    return "\n".join(lines)
