"""Selection of a run's findings by what they contain and by their change since earlier runs.

A finding's change status has its change, the time when it was first seen, and the suppression that names
it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from auditor.errors import UsageError
from auditor.model.arrow import ds
from auditor.model.finding import ChangeStatus, Finding, Severity, StatusLookup, Urgency, glob_to_regex
from auditor.model.history import ChangesSince
from auditor.model.report_source import OwnerTotal, ReportSource
from auditor.model.simulation import NearLoss
from auditor.model.space import SpaceGauges
from auditor.runs.reader import RunReader, finding_of


@dataclass(frozen=True, slots=True)
class Selection:
    """Filter for findings. A finding matches if it matches every field that is not empty.

    A field matches if one of its values does. In names, * and ? are wildcards. ``ledgers`` are pairs of scope
    (the upper half of a 128-bit id) and id. ``topics`` are compared with the owner in a finding's evidence.
    """

    severities: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    bookies: tuple[str, ...] = ()
    ledgers: tuple[tuple[int, int], ...] = ()
    topics: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()

    @property
    def matches_everything(self) -> bool:
        """Return whether the selection matches every finding, because all its fields are empty."""
        return not any(getattr(self, filter_values.name) for filter_values in fields(self))

    def matches_check(self, id: str) -> bool:
        """Return whether the field ``checks`` matches the check ``id``. Other fields are ignored."""
        return not self.checks or _matches_any(self.checks, [id])

    def selects(self, finding: Finding, change_status: ChangeStatus | None) -> bool:
        """Return whether a finding matches.

        >>> from auditor.model.finding import Confidence
        >>> lost = Finding("entry-lost", Severity.CRITICAL, Confidence.CONFIRMED, 0, 42)
        >>> Selection(checks=("entry-*",), ledgers=((0, 42),)).selects(lost, None)
        True
        >>> Selection(severities=("error",)).selects(lost, None)
        False
        """
        bookies = (
            finding.bookie_id,
            *(owner_name.bookie_id for owner_name in finding.missing),
            *finding.unknown,
        )
        return (
            (not self.severities or finding.severity in self.severities)
            and self.matches_check(finding.id)
            and (
                not self.bookies
                or _matches_any(self.bookies, [bookie for bookie in bookies if bookie is not None])
            )
            and (not self.ledgers or (finding.scope_id or 0, finding.ledger_id) in self.ledgers)
            and (not self.topics or _matches_any(self.topics, _topics_of_finding(finding)))
            and (not self.changes or (change_status is not None and change_status.change in self.changes))
        )


def finding_by_fingerprint(run: RunReader, fingerprint: str) -> Finding:
    """Return the finding of a run with this fingerprint.

    Raises:
        UsageError: the run has no such finding.
        RunError: the table of findings is broken.
    """
    for batch in run.batches("findings", filter=ds.field("fingerprint") == fingerprint):
        for row in batch.to_pylist():
            return finding_of(row)
    raise UsageError(
        f"--accept {fingerprint}: the run has no finding with this fingerprint; list all with --format jsonl"
    )


def require_known(run: RunReader, selection: Selection) -> None:
    """Raise an error if a selected bookie or topic is in no table and in no finding of the run.

    The user has then probably mistyped the name.

    Raises:
        UsageError: the bookie or topic is unknown. The message has its name and similar names.
        RunError: a table is broken.
    """
    from auditor.runs.load_bookie import bookie_hint, bookie_ids
    from auditor.runs.load_topic import topic_hint, topic_names

    for pattern in selection.bookies:
        bookies = bookie_ids(run)
        if not _matches_any([pattern], bookies) and not _is_selected_from_findings(
            run, Selection(bookies=(pattern,))
        ):
            raise UsageError(f"--bookie {pattern}: the run has no such bookie{bookie_hint(pattern, bookies)}")
    for pattern in selection.topics:
        if not _is_selected_from_findings(run, Selection(topics=(pattern,))) and not any(
            _matches_any([pattern], names) for names in topic_names(run)
        ):
            raise UsageError(f"--topic {pattern}: the run has no such topic{topic_hint(run, pattern)}")


def _is_selected_from_findings(run: RunReader, selection: Selection) -> bool:
    return any(selection.selects(finding, None) for finding in run.findings)


def _topics_of_finding(finding: Finding) -> list[str]:
    """Return both names of the topic that owns a finding's ledger: topic, and tenant/namespace/topic.

    Empty if no topic owns the ledger.
    """
    owner = finding.evidence.get("owner", finding.evidence)
    owner_names = (
        [owner.get(key) for key in ("tenant", "namespace", "topic")] if isinstance(owner, dict) else [None]
    )
    if not isinstance(owner_names[-1], str):
        return []
    return [owner["topic"], "/".join(str(owner_name) for owner_name in owner_names if owner_name is not None)]


def _matches_any(patterns: Iterable[str], names: Iterable[str]) -> bool:
    names = list(names)
    return any(
        re.fullmatch(glob_to_regex(pattern), name, re.DOTALL) for pattern in patterns for name in names
    )


class SelectedRun:
    """A finished run with a selection of its findings, for the report forms that list all findings."""

    def __init__(self, run: ReportSource, selection: Selection) -> None:
        self.path = run.path
        self.report = run.report
        self._run = run
        self._selection = selection

    @property
    def findings(self) -> Iterator[Finding]:
        """Return the selected findings, in the order that reports use. Each access reads them again."""
        return (finding for finding, _ in self.with_statuses())

    def with_statuses(
        self, rank: tuple[Urgency, Severity] | None = None
    ) -> Iterator[tuple[Finding, ChangeStatus | None]]:
        """Yield the selected findings with their change statuses.

        If ``rank`` is given, only findings with this urgency and severity are yielded. None: findings of
        every urgency and severity.
        """
        find_status = self._run.statuses_in_order()
        for finding in self._run.findings:
            if rank is not None and (finding.urgency, finding.severity) != rank:
                continue
            change_status = find_status(finding.fingerprint)
            if self._selection.selects(finding, change_status):
                yield finding, change_status

    def statuses(self) -> StatusLookup:
        """Return a function that maps the fingerprint of a finding in the report to its change status."""
        return self._run.statuses()

    def statuses_in_order(self) -> StatusLookup:
        """Return a function that maps a finding's fingerprint to its change status.

        Call the returned function in the order of the findings in the report. Findings outside the
        selection may be skipped.
        """
        return self._run.statuses_in_order()

    def last_complete(self) -> int | None:
        """Return when the newest complete run up to this run ended, in ms since 1970. None: there is none."""
        return self._run.last_complete()

    def changes_since_complete(self) -> ChangesSince:
        """Return all changes of the run since the last complete run, not only those of selected findings."""
        return self._run.changes_since_complete()

    def space_gauges(self) -> SpaceGauges:
        """Return the run's metrics of disk space. The selection does not change them."""
        return self._run.space_gauges()

    def namespaces(self) -> Sequence[OwnerTotal] | None:
        """Return the totals of all namespaces of the run. None if the run read no owners.

        The selection does not change them.
        """
        return self._run.namespaces()

    def near_losses(self) -> Sequence[NearLoss]:
        """Return the run's data that is one failure from loss. The selection does not change it."""
        return self._run.near_losses()

    def html_page(self) -> Iterable[str]:
        """Return the HTML page of the run in parts. It has all findings, whatever the selection is."""
        return self._run.html_page()


def sampled_findings(
    run: ReportSource, rank: tuple[Urgency, Severity]
) -> Iterator[tuple[Finding, ChangeStatus | None]]:
    """Yield the findings of one urgency and severity in the run's report, each with its change status."""
    find_status = run.statuses()
    for finding in run.report.findings:
        if (finding.urgency, finding.severity) == rank:
            yield finding, find_status(finding.fingerprint)
