"""A run as its directory and report.json have it: names of files, facts, and remarks about it.

    RUN/manifest.json       sources, times, versions, counts
    RUN/tables/<name>/      Parquet
    RUN/findings/           Parquet: every finding
    RUN/report.json         facts and remarks, counts, samples

Facts carry what the published schema says of each. The first screen has those remarks that change what one
does, a line each; `bkaudit explain run` has all, with their details.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypedDict, cast

from auditor.model.action_facts import Action, ForbiddenAction, HoldFacts
from auditor.model.check_settings import ChecksChosen
from auditor.model.finding_words import CheckId, ConfidenceWord, SeverityWord, UrgencyWord
from auditor.model.json_shape import Count, Facet, Time, about
from auditor.model.placement import PlacementFacts
from auditor.model.repair import RepairFacts


class RemarkKind(StrEnum):
    """What a remark is about; what changes more of what one does goes before."""

    NEAR_LOSS = "near-loss"
    ONE_REACHABLE = "one-reachable"  # copies: other members are down
    NOT_COMPARED = "not-compared"  # with an earlier run, which was there
    NOT_ACCEPTED = "not-accepted"  # by a suppressions file that names it
    END_UNKNOWN = "end-unknown"  # of a dump
    SAVED_FILE = "saved-file"  # a snapshot or log that is damaged, cut, or alone
    LAYOUT_ASSUMED = "layout-assumed"
    COLLECTION_UNUSED = "collection-unused"
    JOURNAL_INCOMPLETE = "journal-incomplete"
    WITNESS_BOUND = "witness-bound"
    WITNESS_SILENT = "witness-silent"
    OWNERS_UNREAD = "owners-unread"
    LOCATIONS_UNREAD = "locations-unread"
    SPACE_UNREAD = "space-unread"
    COLLECTOR_DEFAULTS = "collector-defaults"
    EARLIER_VERSION = "earlier-version"  # its kind is not known
    SAVED = "saved"
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
    def acts(self) -> bool:
        """Whether it changes what one does.

        It does where findings are less sure, or may be too few, for a reason that somebody can mend.
        """
        return self in _ACTING


_ACTING = frozenset(
    {
        RemarkKind.NEAR_LOSS,
        RemarkKind.ONE_REACHABLE,
        RemarkKind.NOT_COMPARED,
        RemarkKind.NOT_ACCEPTED,
        RemarkKind.END_UNKNOWN,
        RemarkKind.SAVED_FILE,
        RemarkKind.LAYOUT_ASSUMED,
        RemarkKind.COLLECTION_UNUSED,
        RemarkKind.JOURNAL_INCOMPLETE,
        RemarkKind.WITNESS_BOUND,
        RemarkKind.WITNESS_SILENT,
        RemarkKind.OWNERS_UNREAD,
        RemarkKind.LOCATIONS_UNREAD,
        RemarkKind.SPACE_UNREAD,
        RemarkKind.COLLECTOR_DEFAULTS,
        RemarkKind.EARLIER_VERSION,
    }
)


class Remark(TypedDict):
    """A sentence about the run, of a line beside its label, but for names; and what more is to be said."""

    kind: Annotated[str, Facet("enum", (*RemarkKind,))]
    text: str
    details: Annotated[list[str], about("names and reasons, a bounded sample")]


def remark(kind: RemarkKind, text: str, *details: str) -> Remark:
    """A remark with its details."""
    return Remark(kind=str(kind), text=text, details=list(details))


def remark_with_reason(kind: RemarkKind, sentence: str) -> Remark:
    """A remark of a sentence that ends with its reason, behind a colon.

    >>> remark_with_reason(RemarkKind.SAVED_FILE, "snapshot.7 was passed over: cut off")
    {'kind': 'saved-file', 'text': 'snapshot.7 was passed over', 'details': ['cut off']}
    """
    text, _, reason = sentence.partition(": ")
    return remark(kind, text, *([reason] if reason else []))


def sentence_of(notice: Remark) -> str:
    """All of a remark.

    >>> sentence_of(remark(RemarkKind.NEAR_LOSS, "one failure from loss", "3 ledgers", "1 ledger"))
    'one failure from loss: 3 ledgers; 1 ledger'
    """
    return ": ".join([notice["text"], *(["; ".join(notice["details"])] if notice["details"] else [])])


class Tally(TypedDict):
    """How many findings of one id have one urgency, one severity and one confidence.

    ``new`` and ``worse`` are 0 with no run before.
    """

    id: CheckId
    urgency: UrgencyWord
    severity: SeverityWord
    confidence: ConfidenceWord
    count: Count
    new: Annotated[Count, about("not in the run before, and not suppressed")]
    worse: Annotated[Count, about("less bad in the run before, and not suppressed")]
    suppressed: Annotated[Count, about("of count, those that a suppression names")]


def empty_tally(id: str, urgency: str, severity: str, confidence: str) -> Tally:
    """Of no finding yet."""
    kind = {"id": id, "urgency": urgency, "severity": severity, "confidence": confidence}
    return cast(Tally, kind | dict.fromkeys(("count", "new", "worse", "suppressed"), 0))


class Step(TypedDict):
    """What to do about the findings of one check and urgency; suppressed ones are no part of it.

    ``action`` names its objects, of many the first two; None where nothing presses. ``bookie_id``, or
    ``scope_id`` and ``ledger_id`` in decimal digits, is the first object, which ``bkaudit explain`` takes.
    """

    id: CheckId
    urgency: UrgencyWord
    severity: Annotated[SeverityWord, about("the worst of these findings")]
    count: Count
    unsure: Annotated[Count, about("of count, those that are not confirmed")]
    action: Annotated[str | None, about("what to do, in a few words; null: nothing presses")]
    bookie_id: str | None
    scope_id: str | None
    ledger_id: str | None


class CauseCount(TypedDict):
    """How many findings of a check, urgency and severity follow from a cause."""

    id: CheckId
    urgency: UrgencyWord
    severity: SeverityWord
    count: Count


class CauseEvidence(TypedDict):
    """A finding that proves a cause: its check and its bookie."""

    id: CheckId
    bookie_id: str


class FindingCause(TypedDict):
    """One thing that explains several findings; suppressed ones count too.

    Findings have its ``number`` as their ``cause``. ``kind`` is a word of `auditor.findings.causes`.
    """

    number: Annotated[int, Facet("minimum", 1)]
    kind: Annotated[str, Facet("pattern", "^[a-z]+(-[a-z]+)*$")]
    bookies: list[str]
    sentence: Annotated[str, about("what it is, with its objects")]
    count: Annotated[Count, about("findings that it explains")]
    findings: Annotated[list[CauseCount], about("what follows from it, in the order of reports")]
    evidence: Annotated[list[CauseEvidence], about("findings that prove it")]


class Impact(TypedDict):
    """How many ledgers the findings of one severity are about, and the bytes that those are long.

    ``bytes`` are lengths as the metadata has them, of one copy; a ledger whose length is not kept counts 0.
    """

    severity: SeverityWord
    ledgers: Count
    bytes: Annotated[Count, about("lengths as metadata has them, of one copy")]


class Changes(TypedDict):
    """How the findings differ from those of the run before, in findings; suppressed ones count here too.

    ``finished`` is the time of that run. ``unseen`` were found there: they are not fixed.
    """

    previous: Annotated[str, about("the name of that run's directory")]
    finished: Time
    new: Count
    fixed: Count
    worse: Count
    better: Count
    same: Count
    unseen: Annotated[Count, about("neither found nor ruled out: what they rest on was not read")]


class Suppression(TypedDict):
    """An entry of the suppressions file: ``until`` is an ISO date, ``count`` the findings it suppresses.

    A finding that several entries name counts for the first. One that is ``expired`` suppresses nothing.
    """

    reason: str
    until: Annotated[str, Facet("pattern", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), about("the last day")]
    count: Count
    expired: bool


class AcceptedGaps(TypedDict):
    """What of the coverage is missing and accepted: suppressions name the findings that say why.

    ``bookies`` are those of the unread ones; ``ledgers`` and ``replicas`` are numbers of the undecided ones.
    """

    bookies: list[str]
    ledgers: Count
    replicas: Count


class ReuseCount(TypedDict):
    """How much of a table was taken from an earlier run, and how much was read."""

    reused: Count
    read: Count


class Reuse(TypedDict):
    """What was taken from the earlier run in the directory named ``run`` (``--since``), and read but then.

    Findings and counts are those of a run that reads everything. ``notes`` say why some things were read.
    """

    run: Annotated[str, about("the name of its directory")]
    indexes: ReuseCount
    ledgers: ReuseCount
    notes: Annotated[list[str], about("why some things were read all the same")]


class InDoubt(TypedDict):
    """Ledger ids that may be there or not, as not all of the metadata could be read.

    ``ids`` is in decimal digits; ``reasons`` are parts of the store.
    """

    ids: Annotated[str | None, Facet("pattern", "^[1-9][0-9]*$"), about("how many; null: every id")]
    reasons: Annotated[list[str], about("why, a bounded sample")]


class BookiesListed(TypedDict):
    """Whether cookies and registrations were seen to their end.

    ``unclear`` are the bookies of which alone one could not be read.
    """

    hidden: Annotated[str | None, about("a place where any bookie's could be, and why")]
    unclear: Annotated[list[str], about("bookies")]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of the run itself, as JSON has them; times in milliseconds since 1970, UTC.

    ``positions`` are the store's positions (zxids), one for each scan. ``gaps`` name what of the metadata
    could not be listed or read, a bounded sample; with any no run is complete. ``remarks`` are sentences that
    a reader should see. ``operations`` counts what was asked of the sources, all of it reading. ``finished``
    is when the findings were complete. ``impact`` has one entry for each severity with findings about
    ledgers, the worst first. The facts that follow ``reused`` are None too where an earlier version wrote the
    run, which did not say them. ``witness_asked``: on a live store where ``--witness`` allows it. ``blind``
    is what `auditor.reports.blind_spots` makes of these facts.
    """

    version: str
    started: Time
    finished: Time
    scan_time: Time
    live: bool
    positions: list[str]
    bookie_sources: list[str]
    entry_logs: Annotated[bool, about("whether the bookies' entry logs were read")]
    owners: Annotated[bool, about("whether an application's lists of ledgers were read")]
    offload_listing: Annotated[
        bool, about("whether an inventory of the bucket of offloaded ledgers was read")
    ]
    operations: dict[str, Count]
    gaps: list[str]
    in_doubt: Annotated[InDoubt | None, about("ids that may be there unseen; null: none")]
    resumed: Annotated[int | None, about("of the oldest table that an interrupted run had left")]
    remarks: list[Remark]
    tally: list[Tally]
    impact: Annotated[list[Impact], about("by severity, of findings about ledgers")]
    changes: Annotated[Changes | None, about("null: there is no earlier run to compare with")]
    suppressions: Annotated[list[Suppression], about("of the suppressions file, in order")]
    accepted: Annotated[AcceptedGaps, about("what is not decided for reasons that suppressions name")]
    reused: Annotated[Reuse | None, about("what was taken from an earlier run (--since); null: all was read")]
    keeps_marks: Annotated[bool | None, about("whether the metadata store keeps under-replication marks")] = (
        None
    )
    keeps_times: Annotated[bool | None, about("whether it keeps when something was made and changed")] = None
    marks_listed: Annotated[bool | None, about("whether all its marks could be listed")] = None
    bookies_listed: Annotated[
        BookiesListed | None, about("cookies and registrations that could not be read")
    ] = None
    directories_read: Annotated[
        Count | None, about("directories of bookies that were found; 0: bookies were only asked, or none was")
    ] = None
    witness_asked: Annotated[bool | None, about("whether bookies could be asked for entries")] = None
    blind: Annotated[
        list[CheckId] | None, about("checks that saw nothing at all: that they found nothing means nothing")
    ] = None
    placement: Annotated[
        PlacementFacts | None, about("policy and locations; null: no mapping was found and no policy chosen")
    ] = None
    steps: Annotated[
        list[Step] | None,
        about("what to do, in order: the first with an action is what to do now; null: not known"),
    ] = None
    causes: Annotated[
        list[FindingCause] | None, about("what one thing explains, the most urgent first; null: not known")
    ] = None
    holds: Annotated[
        HoldFacts | None, about("how many holds there are; null: an earlier version made the run")
    ] = None
    actions: Annotated[
        list[Action] | None,
        about("the ordered list of actions: the first is what to do first; null: not known"),
    ] = None
    forbidden: Annotated[
        list[ForbiddenAction] | None,
        about("what findings ask for and holds forbid; null: not known"),
    ] = None
    repair: Annotated[
        RepairFacts | None, about("who repairs ledgers, what waits, what can be read; null: not known")
    ] = None
    checks: Annotated[
        ChecksChosen | None, about("the choice of checks and their constants; null: all ran, with defaults")
    ] = None

    @property
    def not_run(self) -> tuple[str, ...]:
        """The ids of the checks that were left out."""
        return tuple(self.checks["not_run"]) if self.checks is not None else ()

    @property
    def unheld(self) -> tuple[str, ...]:
        """The ids of the checks whose holds may be missing."""
        return tuple(self.checks["unheld"]) if self.checks is not None else ()


MANIFEST = "manifest.json"
"""What the run was asked, and what a run that takes it up or compares with it has to know."""
REPORT = "report.json"
"""Written last: a run that has one is whole."""
WHOLE = "_SUCCESS"
"""Spark's mark of a table that is written to the end; so is it of a table that tasks or the driver wrote."""


def program_version() -> str:
    """As installed; a package that travels as a bare zip (``--py-files``) does not know its own.

    >>> isinstance(program_version(), str)
    True
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("bookkeeper-auditor")
    except PackageNotFoundError:
        return "unpackaged"
