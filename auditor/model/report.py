"""What one audit says: counts in full, findings in bounded samples, and how much of the cluster it saw.

`Report.to_json` is report.json, ``schemas/report.schema.json`` its schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypedDict

from auditor.errors import RunError, RunUsageError
from auditor.model.finding import Confidence, Finding, Severity, finding_from_json, finding_to_json
from auditor.model.json_shape import require_shape
from auditor.model.placement import PlacementFacts
from auditor.model.states import Verdict

SCHEMA = "bookkeeper-auditor/report/6"
_FAMILY = SCHEMA.rstrip("0123456789")


class Tally(TypedDict):
    """How many findings of one id have one severity and one confidence.

    ``suppressed`` are those of ``count`` that the suppressions file names. Of the others ``new`` were not
    found in the run before, and ``worse`` were found there and less bad; 0 with no run before.
    """

    id: str
    severity: str
    confidence: str
    count: int
    new: int
    worse: int
    suppressed: int


class Impact(TypedDict):
    """How many ledgers the findings of one severity are about, and the bytes that those are long.

    ``bytes`` are lengths as the metadata has them, of one copy; a ledger whose length is not kept counts 0.
    """

    severity: str
    ledgers: int
    bytes: int


class Changes(TypedDict):
    """How the findings differ from those of the run before, in findings; suppressed ones count here too.

    ``previous`` names the directory of that run, ``finished`` is its time in milliseconds. ``unseen`` were
    found there and could be neither found nor ruled out now, as what they rest on was not read: they are
    not fixed.
    """

    previous: str
    finished: int
    new: int
    fixed: int
    worse: int
    better: int
    same: int
    unseen: int


class Suppression(TypedDict):
    """An entry of the suppressions file: ``until`` is an ISO date, ``count`` the findings it suppresses.

    A finding that several entries name counts for the first. One that is ``expired`` suppresses nothing.
    """

    reason: str
    until: str
    count: int
    expired: bool


class AcceptedGaps(TypedDict):
    """What of the coverage is missing and accepted: suppressions name the findings that say why.

    ``bookies`` are those of the unread ones; ``ledgers`` and ``replicas`` are numbers of the undecided ones.
    """

    bookies: list[str]
    ledgers: int
    replicas: int


class ReuseCount(TypedDict):
    """How much of a table was taken from an earlier run, and how much was read."""

    reused: int
    read: int


class Reuse(TypedDict):
    """What was taken from the earlier run in the directory named ``run`` (``--since``), and read but then.

    Findings and counts are those of a run that reads everything. ``notes`` say why some things were read.
    """

    run: str
    indexes: ReuseCount
    ledgers: ReuseCount
    notes: list[str]


class InDoubt(TypedDict):
    """Ledger ids that may be there or not, as not all of the metadata could be read.

    ``ids``: how many, in decimal digits, None for all; ``reasons``: which parts of the store, a sample.
    """

    ids: str | None
    reasons: list[str]


class BookiesListed(TypedDict):
    """Whether cookies and registrations were seen to their end.

    ``hidden`` is a place where any bookie's could be that was not read, and why; ``unclear`` are the bookies
    of which alone one could not be read.
    """

    hidden: str | None
    unclear: list[str]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of the run itself, as JSON has them; times in milliseconds since 1970, UTC.

    ``positions`` are the store's positions (zxids), one for each scan. ``gaps`` name what of the metadata
    could not be listed or read, a bounded sample; with any no run is complete. ``in_doubt`` is None where
    every id is known to be there or not. ``notes`` are sentences that a reader should see. ``operations``
    counts what was asked of the sources, all of it reading. ``finished`` is when the findings were complete.
    ``impact`` has one entry for each severity with findings about ledgers, the worst first; ``changes`` is
    None where there is no earlier run to compare with; ``suppressions`` are the entries of the suppressions
    file, in order; ``accepted`` is what they accept of what is undecided; ``reused`` is None if all was read.
    ``entry_logs``, ``owners`` (an application's lists of ledgers) and ``offload_listing`` (an inventory of
    the bucket) say what was read. ``resumed`` is when the oldest table was written that this run took of one
    that broke off, None where it took none.

    What follows is None where an earlier version wrote the run, which did not say it. ``keeps_marks`` and
    ``keeps_times`` are of the metadata store; ``marks_listed``: all its marks could be listed.
    ``directories_read`` is how many directories of bookies were found, 0 where bookies were only asked;
    ``witness_asked``: bookies could be asked for entries, on a live store where ``--witness`` allows it.
    ``blind`` are the ids of the checks that saw nothing at all for what these facts lack
    (`auditor.reports.blind_spots`): without a finding of theirs nothing is known to be fine. ``placement`` is
    None too where no mapping of bookies was found and no policy chosen.
    """

    version: str
    started: int
    finished: int
    scan_time: int
    live: bool
    positions: list[str]
    bookie_sources: list[str]
    entry_logs: bool
    owners: bool
    offload_listing: bool
    operations: dict[str, int]
    gaps: list[str]
    in_doubt: InDoubt | None
    resumed: int | None
    notes: list[str]
    tally: list[Tally]
    impact: list[Impact]
    changes: Changes | None
    suppressions: list[Suppression]
    accepted: AcceptedGaps
    reused: Reuse | None
    keeps_marks: bool | None = None
    keeps_times: bool | None = None
    marks_listed: bool | None = None
    bookies_listed: BookiesListed | None = None
    directories_read: int | None = None
    witness_asked: bool | None = None
    blind: list[str] | None = None
    placement: PlacementFacts | None = None


_LATER = [each.name for each in fields(RunFacts) if each.default is None]
_EARLIER = {f"{_FAMILY}4": _LATER, f"{_FAMILY}5": _LATER[-1:]}
"""Versions before that still open, and the facts of a run that they do not say; all else is the same."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Which cluster; the URI without credentials. ``layout`` is that of its ledger tree."""

    instance_id: str | None
    metadata_uri: str
    layout: str

    @property
    def name(self) -> str:
        """What messages call it: the instance id, or the metadata URI where there is none."""
        return self.instance_id or self.metadata_uri


@dataclass(frozen=True, slots=True)
class DecidedCount:
    """So many there are, and of so many something certain is known."""

    total: int
    decided: int


@dataclass(frozen=True, slots=True)
class BookiesRead:
    """``expected``: bookies that some ensemble names; ``unread``: those not read to the end, all of them."""

    expected: int
    read: int
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replicas:
    """Replicas (ledger, bookie) that should hold an entry, and those of which it is known."""

    expected: int
    decided: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much was looked at, in counted numbers."""

    ledgers: DecidedCount
    bookies: BookiesRead
    replicas: Replicas

    @property
    def complete(self) -> bool:
        """Whether nothing is left undecided.

        >>> Coverage(DecidedCount(3, 3), BookiesRead(1, 1, ()), Replicas(6, 5)).complete
        False
        """
        return (
            self.ledgers.total == self.ledgers.decided
            and self.bookies.expected == self.bookies.read
            and not self.bookies.unread
            and self.replicas.expected == self.replicas.decided
        )


@dataclass(frozen=True)
class Report:
    """The result of an audit, small enough to keep in memory.

    ``counts`` are complete, by id; ``findings`` are samples, a bounded number of each id, in the order
    severity, id, scope, ledger, bookie. Use `make`, which works out verdict and counts from the tally.
    """

    run: RunFacts
    cluster: Cluster
    coverage: Coverage
    verdict: str
    counts: Mapping[str, int]
    findings: tuple[Finding, ...]

    @classmethod
    def make(
        cls, run: RunFacts, cluster: Cluster, coverage: Coverage, findings: tuple[Finding, ...]
    ) -> Report:
        """A report with its counts and its verdict.

        ``not-healthy`` with a finding of ``warning`` or worse, whatever its confidence; else ``incomplete``
        with anything undecided; else ``healthy``.
        """
        counts: dict[str, int] = {}
        for tally in sorted(run.tally, key=lambda each: (Severity(each["severity"]).rank, each["id"])):
            counts[tally["id"]] = counts.get(tally["id"], 0) + tally["count"]
        if found_at_least(run.tally, Severity.WARNING):
            verdict = Verdict.NOT_HEALTHY
        else:
            verdict = Verdict.HEALTHY if _complete(run, coverage) else Verdict.INCOMPLETE
        return cls(run, cluster, coverage, verdict, counts, findings)

    @property
    def complete(self) -> bool:
        """Whether all of it was looked at and decided."""
        return _complete(self.run, self.coverage)

    @property
    def complete_but_accepted(self) -> bool:
        """Whether all of it was decided but for gaps that suppressions accept."""
        seen, accepted = self.coverage, self.run.accepted
        return (
            not self.run.gaps
            and bool(self.run.bookie_sources)
            and seen.ledgers.total - seen.ledgers.decided <= accepted["ledgers"]
            and seen.replicas.expected - seen.replicas.decided <= accepted["replicas"]
            and {*seen.bookies.unread} <= {*accepted["bookies"]}
        )

    @property
    def metadata_only(self) -> bool:
        """Whether no source of bookies' indexes was given, so that nothing is known of any copy."""
        return not self.run.bookie_sources

    def to_json(self) -> str:
        """The text of report.json; ids of ledgers and scopes are decimal strings."""
        value = {
            "schema": SCHEMA,
            "run": asdict(self.run),
            "cluster": asdict(self.cluster),
            "coverage": asdict(self.coverage),
            "verdict": self.verdict,
            "counts": dict(self.counts),
            "findings": [finding_to_json(finding) for finding in self.findings],
        }
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Read report.json back.

        Raises:
            RunError: no JSON, another schema, an older version, or a key is missing or of another type.
        """
        try:
            value = json.loads(text)
            schema = value.get("schema") if isinstance(value, dict) else None
            if not isinstance(schema, str) or not schema.startswith(_FAMILY):
                raise ValueError(f"it is not a report of this program: its schema is {schema!r}")
            if schema != SCHEMA and schema not in _EARLIER:
                raise RunUsageError(f"this is not {SCHEMA}: its schema is {schema!r}; audit again")
            value["run"] = dict.fromkeys(_EARLIER.get(schema, ())) | value["run"]
            _same_shape(value["run"])
            for name, kind in _SHAPE.items():
                require_shape(value[name], kind, name)
            _require_words(value)
            bookies = value["coverage"]["bookies"]
            return cls(
                run=RunFacts(**{name: value["run"][name] for name in RunFacts.__annotations__}),
                cluster=Cluster(**value["cluster"]),
                coverage=Coverage(
                    DecidedCount(**value["coverage"]["ledgers"]),
                    BookiesRead(bookies["expected"], bookies["read"], tuple(bookies["unread"])),
                    Replicas(**value["coverage"]["replicas"]),
                ),
                verdict=value["verdict"],
                counts=value["counts"],
                findings=tuple(finding_from_json(finding) for finding in value["findings"]),
            )
        except KeyError as error:
            raise RunError(f"it has no {error}") from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise RunError(str(error) or type(error).__name__) from error


_SHAPE: dict[str, Any] = {
    "run": RunFacts,
    "cluster": Cluster,
    "coverage": Coverage,
    "counts": dict[str, int],
    "findings": list[dict[str, Any]],
}


def _require_words(value: Mapping[str, Any]) -> None:
    """Refuse words and times that no report has; ValueError names them."""
    Verdict(value["verdict"])
    for each in (*value["run"]["tally"], *value["run"]["impact"]):
        Severity(each["severity"])
        Confidence(each.get("confidence", "confirmed"))
    for name in ("started", "finished", "scan_time"):
        if not 0 <= value["run"][name] < 253_402_300_800_000:  # the year 10,000, which no date can show
            raise ValueError(f"run.{name} is not a time: {value['run'][name]}")


def _same_shape(run: Mapping[str, Any]) -> None:
    """Refuse a report of a version that kept less of a run than this one: comparing would mislead."""
    missing = [f"run.{key}" for key in RunFacts.__annotations__ if key not in run]
    missing += [
        f"run.tally.{key}"
        for key in Tally.__annotations__
        if any(key not in tally for tally in run.get("tally", ()))
    ]
    if missing:
        raise RunUsageError(
            f"another version of this program wrote this report ({run.get('version')}): it lacks "
            f"{', '.join(missing)}; audit again"
        )


def found_at_least(tallies: list[Tally], severity: Severity) -> bool:
    """Whether there is a finding this bad or worse, of any confidence."""
    return any(tally["count"] and Severity(tally["severity"]).at_least(severity) for tally in tallies)


def _complete(run: RunFacts, coverage: Coverage) -> bool:
    return coverage.complete and not run.gaps and bool(run.bookie_sources)
