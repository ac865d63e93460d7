"""Report of one audit: complete counts, a limited sample of findings, coverage, and the exit code.

`Report.to_json` writes report.json. Its schema ``schemas/report.schema.json`` is generated from these
types. Schedulers rely on the exit code of a finished audit:

    0  no findings that fail the audit, and everything was decided (judged)
    1  confirmed findings at or above --fail-on
    3  no confirmed findings at or above --fail-on, but not everything was decided
    5  more of the input is damaged than the limit allows

Code 2 (wrong usage) and code 4 (a source cannot be reached) end an audit before it has a report
(`auditor.errors`). If several codes apply, 5 takes precedence over 1, and 1 over 3. An unconfirmed finding at
or above --fail-on gives 3, or 1 with --fail-on-suspect. A suppressed finding gives neither 1 nor 3. Unread
bookies and undecided ledgers or replicas count as accepted if suppressions name every reason for them. A
finding about data that is lost or about to be deleted counts with any value of --fail-on. Until a person
accepts such a finding, the exit code is never 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from auditor.errors import RunError, RunUsageError
from auditor.model.acceptance import DATA_LOSS
from auditor.model.action_facts import Action
from auditor.model.finding import Confidence, Finding, Severity, Urgency, finding_from_json, finding_to_json
from auditor.model.holds import ActionKind
from auditor.model.json_shape import Count, read_value
from auditor.model.option_values import NEW_FINDINGS, FailOn
from auditor.model.placement import PlacementSettings
from auditor.model.run_facts import RemarkKind, RunFacts, Tally, remark_with_reason
from auditor.model.states import Verdict

SCHEMA = "bookkeeper-auditor/report/8"
_SCHEMA_PREFIX = SCHEMA.rstrip("0123456789")

_OPTIONAL_RUN_FACTS = [fact.name for fact in fields(RunFacts) if fact.default is None]
_KEYS_LACKED_BY_SCHEMA = {
    f"{_SCHEMA_PREFIX}4": _OPTIONAL_RUN_FACTS,
    f"{_SCHEMA_PREFIX}5": _OPTIONAL_RUN_FACTS[_OPTIONAL_RUN_FACTS.index("placement") :],
    f"{_SCHEMA_PREFIX}6": _OPTIONAL_RUN_FACTS[_OPTIONAL_RUN_FACTS.index("holds") :],
    f"{_SCHEMA_PREFIX}7": _OPTIONAL_RUN_FACTS[_OPTIONAL_RUN_FACTS.index("checks") :],
}
"""Earlier schema versions that can be read, with the run facts that each lacks; all else is equal."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Identity of a cluster.

    ``metadata_uri`` does not contain credentials. ``layout`` is the layout of the ledger tree.
    """

    instance_id: str | None
    metadata_uri: str
    layout: str

    @property
    def name(self) -> str:
        """Name of the cluster in messages: the instance id, or else the metadata URI."""
        return self.instance_id or self.metadata_uri


@dataclass(frozen=True, slots=True)
class DecidedCount:
    """Numbers of ledgers: all (``total``), judged (``decided``), and open without a judgement (``open``).

    ``open`` counts ledgers that are not closed and have no entry that can be judged. A writer may still be
    sending each of their entries. Open ledgers count neither as decided nor as undecided.
    """

    total: Count
    decided: Count
    open: Count = 0

    @property
    def undecided(self) -> int:
        """Number of ledgers that should have been judged but were not."""
        return self.total - self.decided - self.open


@dataclass(frozen=True, slots=True)
class BookiesRead:
    """Number of bookies in ensembles (``expected``), and how many of them were read (``read``).

    ``unread`` has the ids of the bookies that were not read.
    """

    expected: Count
    read: Count
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReplicaCount:
    """Number of replicas that should have an entry, and how many of them have a known state (``decided``).

    A replica is one ledger's copies on one bookie.
    """

    expected: Count
    decided: Count


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of an audit: for ledgers, bookies and replicas, the total and how many were read or judged."""

    ledgers: DecidedCount
    bookies: BookiesRead
    replicas: ReplicaCount

    @property
    def complete(self) -> bool:
        """Whether every bookie was read, and no ledger or replica is undecided.

        >>> Coverage(DecidedCount(3, 3), BookiesRead(1, 1, ()), ReplicaCount(6, 5)).complete
        False
        """
        return (
            self.ledgers.undecided == 0
            and self.bookies.expected == self.bookies.read
            and not self.bookies.unread
            and self.replicas.expected == self.replicas.decided
        )


@dataclass(frozen=True)
class Report:
    """Result of an audit. It is small enough to keep in memory.

    ``counts`` maps the id of each check to its number of findings. ``findings`` contains a limited number
    of findings for each check. They are sorted by urgency, severity, check, scope, ledger and bookie, as in
    all reports. Create reports with `make`, which derives the verdict and the counts from the tally of
    findings.
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
        """Create a report, and compute its counts and its verdict.

        The verdict is ``not-healthy`` if there is a finding of severity ``warning`` or worse, with any
        confidence. Otherwise the verdict is ``incomplete`` if something is undecided or a check did not
        run. In all other cases it is ``healthy``.
        """
        counts: dict[str, int] = {}
        for tally in sorted(
            run.tally, key=lambda row: (Urgency(row["urgency"]).rank, Severity(row["severity"]).rank)
        ):
            counts[tally["id"]] = counts.get(tally["id"], 0) + tally["count"]
        if has_finding_at_least(run.tally, Severity.WARNING):
            verdict = Verdict.NOT_HEALTHY
        else:
            verdict = Verdict.HEALTHY if _is_complete(run, coverage) else Verdict.INCOMPLETE
        return cls(run, cluster, coverage, verdict, counts, findings)

    @property
    def complete(self) -> bool:
        """Whether the audit read all data, ran all checks, and left no ledger or replica undecided."""
        return _is_complete(self.run, self.coverage)

    @property
    def is_complete_or_accepted(self) -> bool:
        """Whether everything was decided, except for unread or undecided parts that suppressions accept."""
        coverage, accepted_gaps = self.coverage, self.run.accepted
        return (
            not self.run.gaps
            and not self.run.checks_not_run
            and bool(self.run.bookie_sources)
            and coverage.ledgers.undecided <= accepted_gaps["ledgers"]
            and coverage.replicas.expected - coverage.replicas.decided <= accepted_gaps["replicas"]
            and {*coverage.bookies.unread} <= {*accepted_gaps["bookies"]}
        )

    @property
    def first_action(self) -> Action | None:
        """The first action in the run's list of actions.

        None if there is nothing to do. Also None if an earlier version created the run, because the advice
        of that version did not respect holds (rules that forbid actions).
        """
        return next(iter(self.run.actions or ()), None)

    @property
    def is_metadata_only(self) -> bool:
        """Whether the audit was given no bookie's index. In that case the state of every copy is unknown."""
        return not self.run.bookie_sources

    def to_json(self) -> str:
        """Return the text of report.json. Ids of ledgers and scopes are decimal strings in it."""
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
        """Parse the text of report.json.

        Raises:
            RunError: the text is not JSON, or a key is missing or has the wrong type. Also if the text has a
                different schema, or comes from a version that is too old.
        """
        try:
            value = json.loads(text)
            schema = value.get("schema") if isinstance(value, dict) else None
            if not isinstance(schema, str) or not schema.startswith(_SCHEMA_PREFIX):
                raise ValueError(f"the file is not a report of this program: its schema is {schema!r}")
            if schema != SCHEMA and schema not in _KEYS_LACKED_BY_SCHEMA:
                raise RunUsageError(f"the report is not {SCHEMA}: its schema is {schema!r}; audit again")
            value["run"] = dict.fromkeys(_KEYS_LACKED_BY_SCHEMA.get(schema, ())) | value["run"]
            if schema in _KEYS_LACKED_BY_SCHEMA:
                if "notes" in value["run"]:
                    note_texts = value["run"].pop("notes")
                    value["run"]["remarks"] = [
                        remark_with_reason(RemarkKind.EARLIER_VERSION, note_text) for note_text in note_texts
                    ]
                for tally in value["run"].get("tally", ()):
                    tally.setdefault("urgency", Urgency.NOT_URGENT)
            _require_run_keys(value["run"])
            parsed_values = {
                name: read_value(value[name], value_type, name) for name, value_type in _REPORT_TYPES.items()
            }
            _require_known_values(value)
            parsed_values["findings"] = tuple(map(finding_from_json, parsed_values["findings"]))
            return cls(**parsed_values)
        except KeyError as error:
            raise RunError(f"the key {error} is missing") from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise RunError(str(error) or type(error).__name__) from error


_DECIMAL_ID = re.compile("-?[0-9]{1,20}")

_REPORT_TYPES: dict[str, Any] = {
    "run": RunFacts,
    "cluster": Cluster,
    "coverage": Coverage,
    "verdict": Verdict,
    "counts": dict[str, int],
    "findings": list[dict[str, Any]],
}


def _require_known_values(value: Mapping[str, Any]) -> None:
    """Raise a ValueError if the report contains an impossible word or time. The message names it."""
    for remark in value["run"]["remarks"]:
        RemarkKind(remark["kind"])
    run = value["run"]
    for rows_key in ("steps", "actions"):
        for row in run[rows_key] or ():
            for name in ("scope_id", "ledger_id"):
                if row[name] is not None and not _DECIMAL_ID.fullmatch(row[name]):
                    raise ValueError(f"run.{rows_key}.{name} is not a number: {row[name]!r:.60}")
    for rows_key in ("actions", "forbidden"):
        for row in run[rows_key] or ():
            if row["kind"] is not None:
                ActionKind(row["kind"])
            if not row["checks"]:
                raise ValueError(f"run.{rows_key}.checks is empty")
    if (placement := value["run"]["placement"]) is not None:
        PlacementSettings.from_json(
            placement["policy"], placement["settings"], origin=placement["policy_origin"]
        )
    for severity_row in (*run["tally"], *run["impact"], *(run["steps"] or ()), *(run["actions"] or ())):
        Severity(severity_row["severity"])
        Confidence(severity_row.get("confidence", "confirmed"))
        Urgency(severity_row.get("urgency", "rest"))
    for name in ("started", "finished", "scan_time"):
        if not 0 <= value["run"][name] < 253_402_300_800_000:  # the year 10,000, which no date can show
            raise ValueError(f"run.{name} is not a time: {value['run'][name]}")


def _require_run_keys(run: Mapping[str, Any]) -> None:
    """Raise an error if a report lacks run facts that this version needs.

    A comparison with such a report would be misleading.
    """
    missing_keys = [f"run.{key}" for key in RunFacts.__annotations__ if key not in run]
    missing_keys += [
        f"run.tally.{key}"
        for key in Tally.__annotations__
        if any(key not in tally for tally in run.get("tally", ()))
    ]
    if missing_keys:
        raise RunUsageError(
            f"another version of this program wrote this report ({run.get('version')}): it lacks "
            f"{', '.join(missing_keys)}; audit again"
        )


def has_finding_at_least(tallies: list[Tally], severity: Severity) -> bool:
    """Return whether there is a finding of this severity or worse, with any confidence."""
    return any(tally["count"] and Severity(tally["severity"]).at_least(severity) for tally in tallies)


def _is_complete(run: RunFacts, coverage: Coverage) -> bool:
    return coverage.complete and not run.gaps and not run.checks_not_run and bool(run.bookie_sources)


def is_unaccepted_loss(tally: Tally) -> bool:
    """Return whether a tally counts findings of `DATA_LOSS`, at least one of which is not accepted."""
    return tally["urgency"] in DATA_LOSS and tally["count"] > tally["suppressed"]


EXIT_CLEAN = 0
EXIT_FOUND = 1
EXIT_USAGE = 2
EXIT_NOT_COVERED = 3
EXIT_UNREACHABLE = 4
EXIT_DAMAGED = 5

MAX_DAMAGED_SHARE = 0.10
"""Largest share of undecodable ledger records without exit code 5.

Fewer than `MIN_DAMAGED_LEDGERS` such records never give 5.
"""


MIN_DAMAGED_LEDGERS = 100
UNDECODABLE_CHECK = "metadata-unreadable"


def exit_code(report: Report, fail_on: FailOn, fail_on_suspect: bool = False) -> int:
    """Return the exit code of an audit with this report.

    Args:
        report: the report.
        fail_on: lowest severity of the findings that give code 1. With "new", only new and worsened
            findings of severity error or above give code 1. Without a previous run, all findings are new.
            Unaccepted findings of `DATA_LOSS` count in each case.
        fail_on_suspect: treat findings of any confidence as confirmed.
    """
    undecodable_count = report.counts.get(UNDECODABLE_CHECK, 0)
    if (
        undecodable_count >= MIN_DAMAGED_LEDGERS
        and undecodable_count > MAX_DAMAGED_SHARE * report.coverage.ledgers.total
    ):
        return EXIT_DAMAGED
    min_severity = Severity.ERROR if fail_on == NEW_FINDINGS else Severity(fail_on)
    counts_only_new = fail_on == NEW_FINDINGS and report.run.changes is not None
    failing_tallies = [
        tally
        for tally in report.run.tally
        if is_unaccepted_loss(tally)
        or (
            Severity(tally["severity"]).at_least(min_severity)
            and (tally["new"] + tally["worse"] if counts_only_new else tally["count"] - tally["suppressed"])
        )
    ]
    if any(fail_on_suspect or tally["confidence"] == Confidence.CONFIRMED for tally in failing_tallies):
        return EXIT_FOUND
    if report.run.holds is not None and report.run.holds["urgent"]:
        return EXIT_NOT_COVERED
    return EXIT_CLEAN if report.is_complete_or_accepted and not failing_tallies else EXIT_NOT_COVERED
