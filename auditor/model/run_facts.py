"""Parts of a run: names of its files, facts for report.json, and remarks.

    RUN/manifest.json       sources, times, versions, counts
    RUN/tables/<name>/      Parquet
    RUN/findings/           Parquet: every finding
    RUN/report.json         facts and remarks, counts, samples

Facts carry their descriptions for the published schema. A remark is a sentence about the run. The first
screen shows remarks that ask for an action. ``bkaudit explain run`` shows all remarks with their details.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypedDict, cast

from auditor.model.action_facts import Action, ForbiddenAction, HoldFacts
from auditor.model.check_settings import ChosenChecks
from auditor.model.finding_words import CheckId, ConfidenceWord, SeverityWord, UrgencyWord
from auditor.model.json_shape import Count, SchemaFacet, TimeMs, about
from auditor.model.placement import PlacementFacts
from auditor.model.repair import RepairFacts


class RemarkKind(StrEnum):
    """Subject of a remark. The members are in order of importance."""

    NEAR_LOSS = "near-loss"
    ONE_REACHABLE_COPY = "one-reachable"  # copies: other members are down
    NOT_COMPARED = "not-compared"  # with an earlier run, which was there
    NOT_ACCEPTED = "not-accepted"  # by a suppressions file that names it
    END_UNKNOWN = "end-unknown"  # of a dump
    SAVED_FILE_FAULT = "saved-file"  # a snapshot or log that is damaged, cut, or alone
    LAYOUT_ASSUMED = "layout-assumed"
    COLLECTION_UNUSED = "collection-unused"
    JOURNAL_INCOMPLETE = "journal-incomplete"
    ENTRY_READ_LIMIT = "witness-bound"
    ENTRY_READS_UNANSWERED = "witness-silent"
    OWNERS_UNREAD = "owners-unread"
    LOCATIONS_UNREAD = "locations-unread"
    SPACE_UNREAD = "space-unread"
    COLLECTOR_DEFAULTS = "collector-defaults"
    EARLIER_VERSION = "earlier-version"  # its kind is not known
    SAVED_METADATA = "saved"
    STORE_LIMIT = "store-limit"  # what its kind of store does not keep
    SCAN_RESTARTED = "scan-restarted"
    SECOND_SCAN_WHOLE = "second-scan-whole"
    RESUMED = "resumed"
    COLLECTION_CHOICE = "collection-choice"
    MARK_UNREADABLE = "mark-unreadable"
    OWNERS = "owners"
    OFFLOADED = "offloaded"
    PLACEMENT = "placement"
    SPACE = "space"
    DIGESTS = "digests"
    COLLECTOR_SETTINGS = "collector-settings"
    REUSE = "reuse"

    @property
    def asks_for_action(self) -> bool:
        """Whether the remark asks its reader for an action.

        It does if findings are less certain, or may be incomplete, for a reason that somebody can remove.
        """
        return self in _ACTIONABLE


_ACTIONABLE = frozenset(
    {
        RemarkKind.NEAR_LOSS,
        RemarkKind.ONE_REACHABLE_COPY,
        RemarkKind.NOT_COMPARED,
        RemarkKind.NOT_ACCEPTED,
        RemarkKind.END_UNKNOWN,
        RemarkKind.SAVED_FILE_FAULT,
        RemarkKind.LAYOUT_ASSUMED,
        RemarkKind.COLLECTION_UNUSED,
        RemarkKind.JOURNAL_INCOMPLETE,
        RemarkKind.ENTRY_READ_LIMIT,
        RemarkKind.ENTRY_READS_UNANSWERED,
        RemarkKind.OWNERS_UNREAD,
        RemarkKind.LOCATIONS_UNREAD,
        RemarkKind.SPACE_UNREAD,
        RemarkKind.COLLECTOR_DEFAULTS,
        RemarkKind.EARLIER_VERSION,
    }
)


class Remark(TypedDict):
    """A sentence about the run, with its details. The sentence fits on a line, unless it has long names."""

    kind: Annotated[str, SchemaFacet("enum", (*RemarkKind,))]
    text: str
    details: Annotated[list[str], about("names and reasons; only a sample if there are many")]


def remark(kind: RemarkKind, text: str, *details: str) -> Remark:
    """Create a remark with details."""
    return Remark(kind=str(kind), text=text, details=list(details))


def remark_with_reason(kind: RemarkKind, sentence: str) -> Remark:
    """Create a remark from a sentence with the form "text: reason". The reason becomes the detail.

    >>> remark_with_reason(RemarkKind.SAVED_FILE_FAULT, "snapshot.7 was passed over: cut off")
    {'kind': 'saved-file', 'text': 'snapshot.7 was passed over', 'details': ['cut off']}
    """
    text, _, reason = sentence.partition(": ")
    return remark(kind, text, *([reason] if reason else []))


def sentence_of(notice: Remark) -> str:
    """Join a remark and its details to one text.

    >>> sentence_of(remark(RemarkKind.NEAR_LOSS, "one failure from loss", "3 ledgers", "1 ledger"))
    'one failure from loss: 3 ledgers; 1 ledger'
    """
    return ": ".join([notice["text"], *(["; ".join(notice["details"])] if notice["details"] else [])])


class Tally(TypedDict):
    """Number of findings with the same id, urgency, severity and confidence.

    ``new`` and ``worse`` are relative to the previous run. They are 0 if there is no previous run.
    """

    id: CheckId
    urgency: UrgencyWord
    severity: SeverityWord
    confidence: ConfidenceWord
    count: Count
    new: Annotated[Count, about("number of unsuppressed findings that the previous run did not have")]
    worse: Annotated[Count, about("number of unsuppressed findings that are worse than in the previous run")]
    suppressed: Annotated[Count, about("number of findings that a suppression accepts")]


def empty_tally(id: str, urgency: str, severity: str, confidence: str) -> Tally:
    """Return a tally in which all counts are 0."""
    tally_key = {"id": id, "urgency": urgency, "severity": severity, "confidence": confidence}
    return cast(Tally, tally_key | dict.fromkeys(("count", "new", "worse", "suppressed"), 0))


class Step(TypedDict):
    """Instruction for the findings with the same check and urgency. Suppressed findings are ignored.

    ``action`` is the instruction, which names at most two bookies or ledgers. It is None if nothing is
    urgent. The first bookie is ``bookie_id``. The first ledger is ``scope_id`` and ``ledger_id``, in
    decimal digits. ``bkaudit explain`` accepts this bookie or ledger as its argument.
    """

    id: CheckId
    urgency: UrgencyWord
    severity: Annotated[SeverityWord, about("worst severity of the findings that ask for the instruction")]
    count: Count
    unsure: Annotated[Count, about("number of unconfirmed findings that ask for the instruction")]
    action: Annotated[str | None, about("the instruction, in a few words; null: nothing is urgent")]
    bookie_id: str | None
    scope_id: str | None
    ledger_id: str | None


class CauseCount(TypedDict):
    """Number of findings that a cause explains and that have the same check, urgency and severity."""

    id: CheckId
    urgency: UrgencyWord
    severity: SeverityWord
    count: Count


class CauseEvidence(TypedDict):
    """The check and the bookie of a finding that proves a cause."""

    id: CheckId
    bookie_id: str


class FindingCause(TypedDict):
    """An event (cause) that explains several findings. Suppressed findings count too.

    ``number`` is the field ``cause`` of these findings. ``kind`` is a word of `auditor.findings.causes`.
    """

    number: Annotated[int, SchemaFacet("minimum", 1)]
    kind: Annotated[str, SchemaFacet("pattern", "^[a-z]+(-[a-z]+)*$")]
    bookies: list[str]
    sentence: Annotated[str, about("a sentence about the cause, with its objects")]
    count: Annotated[Count, about("number of findings that the cause explains")]
    findings: Annotated[
        list[CauseCount], about("findings that follow from the cause, in the order of reports")
    ]
    evidence: Annotated[list[CauseEvidence], about("findings that prove the cause")]


class Impact(TypedDict):
    """Number and bytes of the ledgers that the findings of one severity are about.

    ``bytes`` is the sum of the lengths in the metadata (one copy). A ledger of unknown length counts as 0.
    """

    severity: SeverityWord
    ledgers: Count
    bytes: Annotated[Count, about("bytes of one copy of these ledgers, by the lengths in metadata")]


class Changes(TypedDict):
    """Numbers of findings by their change since the previous run. Suppressed findings are included.

    ``finished`` is the time when the previous run ended. ``unseen`` counts findings of the previous run
    that were not checked again. They do not count as fixed.
    """

    previous: Annotated[str, about("name of the previous run's directory")]
    finished: TimeMs
    new: Count
    fixed: Count
    worse: Count
    better: Count
    same: Count
    unseen: Annotated[Count, about("earlier findings not checked again, because their data was not read")]


class Suppression(TypedDict):
    """An entry of the suppressions file, and the number of findings that it suppresses (``count``).

    If several entries name a finding, only the first of them counts it. ``expired`` entries suppress nothing.
    """

    reason: str
    until: Annotated[
        str,
        SchemaFacet("pattern", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
        about("last day on which the suppression is valid"),
    ]
    count: Count
    expired: bool


class AcceptedGaps(TypedDict):
    """Unread and undecided parts of a run that are accepted: suppressions name the findings about them.

    ``bookies`` are unread; ``ledgers`` and ``replicas`` are numbers of undecided ledgers and replicas.
    """

    bookies: list[str]
    ledgers: Count
    replicas: Count


class ReuseCount(TypedDict):
    """Numbers of a table's rows: rows taken from an earlier run, and rows that were read again."""

    reused: Count
    read: Count


class Reuse(TypedDict):
    """Data that a run took from the earlier run in the directory ``run`` (``--since``) instead of reading it.

    Findings and counts are the same as without reuse. ``notes`` say why some data was read again.
    """

    run: Annotated[str, about("name of the earlier run's directory")]
    indexes: ReuseCount
    ledgers: ReuseCount
    notes: Annotated[list[str], about("reasons why some data was read again")]


class InDoubt(TypedDict):
    """Ledger ids that may exist or not, because a part of the metadata could not be read.

    ``ids`` is their number in decimal digits, or None for all ids. ``reasons`` describe the unread parts.
    """

    ids: Annotated[
        str | None, SchemaFacet("pattern", "^[1-9][0-9]*$"), about("number of ledger ids; null: all ids")
    ]
    reasons: Annotated[list[str], about("reasons; only a sample if there are many")]


class BookiesListed(TypedDict):
    """Unread cookies and registrations: all below path ``hidden``, and those of bookies in ``unclear``."""

    hidden: Annotated[
        str | None,
        about("path that could not be read, and why; it may contain any bookie's cookie or registration"),
    ]
    unclear: Annotated[list[str], about("bookies whose cookie or registration could not be read")]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of the run itself in their JSON form; times in milliseconds since 1970, UTC.

    ``positions`` are the positions of the store (zxids), one for each scan. ``gaps`` is a limited sample of
    the metadata that could not be listed or read. A run with gaps is not complete. ``remarks`` are sentences
    for the reader. ``operations`` counts the requests to the sources, which are all reads. ``finished`` is
    the time when the findings were complete. ``impact`` has one entry for each severity with findings about
    ledgers, the worst first. ``witness_asked`` is True if the run could ask bookies for entries: the store is
    live, and ``--witness`` allows it. `auditor.reports.blind_spots` computes ``blind``, the checks without
    any input. The facts after ``reused`` are also None if an earlier version wrote the run.
    """

    version: str
    started: TimeMs
    finished: TimeMs
    scan_time: TimeMs
    live: bool
    positions: list[str]
    bookie_sources: list[str]
    entry_logs: Annotated[bool, about("whether the bookies' entry logs were read")]
    owners: Annotated[bool, about("whether an application's lists of ledgers were read")]
    offload_listing: Annotated[bool, about("whether a listing of offloaded objects was read")]
    operations: dict[str, Count]
    gaps: list[str]
    in_doubt: Annotated[InDoubt | None, about("ids of ledgers that may exist unseen; null: no such ids")]
    resumed: Annotated[int | None, about("time of the oldest table reused from an interrupted run, ms")]
    remarks: list[Remark]
    tally: list[Tally]
    impact: Annotated[list[Impact], about("ledgers with findings, by severity")]
    changes: Annotated[Changes | None, about("changes since the previous run; null: there is no such run")]
    suppressions: Annotated[list[Suppression], about("entries of the suppressions file, in order")]
    accepted: Annotated[AcceptedGaps, about("unchecked parts that suppressions accept")]
    reused: Annotated[Reuse | None, about("data taken from an earlier run (--since); null: all was read")]
    keeps_marks: Annotated[bool | None, about("whether the metadata store keeps under-replication marks")] = (
        None
    )
    keeps_times: Annotated[bool | None, about("whether the store keeps times of creation and change")] = None
    marks_listed: Annotated[bool | None, about("whether all marks could be listed")] = None
    bookies_listed: Annotated[BookiesListed | None, about("unreadable cookies and registrations")] = None
    directories_read: Annotated[
        Count | None,
        about("number of bookies' directories that were found; 0 also if no directories were given"),
    ] = None
    witness_asked: Annotated[bool | None, about("whether the run could ask bookies for entries")] = None
    blind: Annotated[
        list[CheckId] | None, about("checks without any input, so that a lack of findings proves nothing")
    ] = None
    placement: Annotated[
        PlacementFacts | None,
        about("placement policy and locations of bookies; null: neither was given"),
    ] = None
    steps: Annotated[list[Step] | None, about("instructions, the most urgent first; null: not known")] = None
    causes: Annotated[
        list[FindingCause] | None,
        about("causes that explain several findings, the most urgent first; null: not known"),
    ] = None
    holds: Annotated[HoldFacts | None, about("number of holds; null: an earlier version made the run")] = None
    actions: Annotated[
        list[Action] | None, about("actions in the order in which to take them; null: not known")
    ] = None
    forbidden: Annotated[
        list[ForbiddenAction] | None, about("actions that findings ask for but holds forbid; null: not known")
    ] = None
    repair: Annotated[
        RepairFacts | None,
        about("state of AutoRecovery, and ledgers that wait or lack reachable copies; null: not known"),
    ] = None
    checks: Annotated[
        ChosenChecks | None,
        about(
            "checks that were left out, and constants of checks; null: all checks ran with default constants"
        ),
    ] = None

    @property
    def checks_not_run(self) -> tuple[str, ...]:
        """Ids of the checks that were left out."""
        return tuple(self.checks["not_run"]) if self.checks is not None else ()

    @property
    def checks_with_missing_holds(self) -> tuple[str, ...]:
        """Ids of checks that may have overlooked a reason for a hold (a rule that forbids actions)."""
        return tuple(self.checks["unheld"]) if self.checks is not None else ()


MANIFEST = "manifest.json"
"""Name of the file with a run's options, and the data to resume it or to compare with it."""
REPORT = "report.json"
"""Name of the report; it is written last, so that a run with a report is complete."""
DONE_FILE = "_SUCCESS"
"""Spark's file that marks a complete table; tables that Spark did not write have it too."""


def program_version() -> str:
    """Return the installed version of this program.

    In a bare zip (``--py-files``) the version is unknown, and the result is "unpackaged".

    >>> isinstance(program_version(), str)
    True
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("bookkeeper-auditor")
    except PackageNotFoundError:
        return "unpackaged"
