"""Causes: one event that explains several findings, with its evidence and the findings that follow from it.

Only facts about bookies prove a cause. A large number of explained findings proves nothing. The causes are:

    foreign-instance   all directories of a bookie carry another cluster's instance id
    store-older        bookies have ledgers whose ids the store's id generator has not given out yet
    disks-swapped      each of two bookies has directories with the other's cookie
    disk-not-mounted   a directory that a bookie's cookies name exists, but is empty and without VERSION
    disk-not-found     an index directory of a bookie was not found, although its other directories were
    other-id           a bookie runs under another id than the one that ledgers name
    not-registered     a bookie that ledgers name is not registered, not even under another id
    not-read           a bookie was not read, or only in part, for a reason of its own
    listing-overflows  the collector's listing overflows at ledger 2^63 - 1
    data-gone          a bookie lacks entries of nearly every ledger that it should hold
    disk-lost          a bookie lacks entries of nearly every ledger of one directory of DbLedgerStorage. This
                       directory has hardly any ledgers, and the bookie's other directories have many

A cause lists the checks that it explains. A bookie's finding follows from a cause of this bookie if its check
is listed. A finding about a ledger's copies follows if all its bookies with missing or unknown copies are of
the cause. Findings with another possible explanation get no cause. Of several causes, the first counts.

A run has at most `MAX_CLAIMS` causes. One pass over all findings assigns them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from auditor.model.amounts import first_names, plural
from auditor.model.finding import Confidence
from auditor.model.start_refusal import Fault
from auditor.model.states import BookieRead, GcCause
from auditor.spark import functions as F
from auditor.spark.types import Column
from auditor.tables.roster import Roster

MAX_CLAIMS = 50
"""Largest number of causes of one run. Every finding is compared with each cause."""

PROVING_CHECKS = (
    "instance-mismatch",
    "metadata-suspect",
    "disk-id-mismatch",
    "disk-version-missing",
    "bookie-alias",
    "bookie-down",
    "ghost-bookie",
    "on-unregistered-bookie",
    "bookie-unread",
    "gc-would-delete-live",
)
"""Checks whose findings prove causes. Each of them has at most one finding per bookie."""

COPY_CHECKS = ("entry-lost", "below-ack-quorum", "below-write-quorum")
_UNDECIDED = frozenset({"replication-undecided"})
_MAX_NAMES = 2
_MIN_LEDGERS = 10
"""Smallest number of damaged ledgers for which a bookie counts as having lost its data or a disk."""
_MIN_LOST_SHARE = 0.95

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """A cause, its bookies, and the findings that it explains.

    The cause explains findings of the checks ``bookie_checks`` about its bookies. It explains findings of the
    checks ``copy_checks`` about ledgers if all bookies concerned belong to the cause. ``min_ledger`` is the
    lowest id of an orphan ledger that the cause explains. ``id_modulo`` (r, n) restricts the cause to ledgers
    whose id modulo n is r. ``evidence`` has the (check, bookie) pairs that prove the cause.
    """

    kind: str
    bookies: tuple[str, ...]
    sentence: str
    evidence: tuple[tuple[str, str], ...]
    bookie_checks: frozenset[str]
    copy_checks: frozenset[str] = frozenset()
    min_ledger: int | None = None
    id_modulo: tuple[int, int] | None = None


LossCounts = Mapping[str, Mapping[int, int]]
"""Number of findings of `COPY_CHECKS` in which a bookie lacks entries, by bookie and directory position.

Only bookies with several directories matter here (`uneven_directories`).
"""


def uneven_directories(roster: Roster) -> dict[str, list[tuple[str, int]]]:
    """Return all index directories of bookies with a nearly empty one, in order, as (path, ledger count).

    Only bookies with DbLedgerStorage count. This storage keeps a ledger in the directory at position id
    modulo number of directories. So all directories should have similar numbers of ledgers.
    """
    ledger_counts = {row["directory"]: row["ledgers"] for row in roster.contents}
    contents_by_owner: dict[str, dict[str, tuple[str, int]]] = {}
    for row in roster.directories:
        contents_by_owner.setdefault(row["owner"], {})[row["configured"]] = (
            row["path"],
            ledger_counts.get(row["path"], 0),
        )
    paths = {
        row["bookie_id"]: row["index_dirs"] or row["ledger_dirs"] for row in roster.starts if row["agreed"]
    }
    index_directories = {
        row["bookie_id"]: [contents_by_owner[row["bookie_id"]][path] for path in paths[row["bookie_id"]]]
        for row in roster.bookies
        if row["read"] == BookieRead.READ
        and row["storage"] == "rocksdb"
        and not row["suspect"]
        and row["bookie_id"] in paths
        and contents_by_owner.get(row["bookie_id"], {}).keys() >= {*paths[row["bookie_id"]]}
    }

    def is_uneven(ledgers: Sequence[int]) -> bool:
        return max(ledgers) >= _MIN_LEDGERS and min(ledgers) <= (1 - _MIN_LOST_SHARE) * max(ledgers)

    return {
        name: directories
        for name, directories in index_directories.items()
        if is_uneven([ledgers for _, ledgers in directories])
    }


def find_claims(rows: Iterable[Row], roster: Roster, loss_counts: LossCounts | None = None) -> list[Claim]:
    """Return the causes of a run.

    ``rows`` are the findings of `PROVING_CHECKS` about bookies: id, bookie_id, confidence, evidence (JSON).
    If ``loss_counts`` is None, the causes data-gone and disk-lost are not looked for.
    """
    proofs: dict[str, dict[str, dict[str, Any]]] = {id: {} for id in PROVING_CHECKS}
    alias_ids: set[str] = set()
    for row in rows:
        evidence = json.loads(row["evidence"])
        if row["id"] == "bookie-alias":
            alias_ids |= {alias_fact["bookie_id"] for alias_fact in evidence["ids"]}
        if row["confidence"] != Confidence.SUSPECT and row["bookie_id"] is not None:
            proofs[row["id"]][row["bookie_id"]] = evidence
    bookies = {row["bookie_id"]: row for row in roster.bookies}
    claims = [
        *_instance_claims(proofs, bookies),
        *_older_store_claims(proofs, bookies),
        *_swapped_disk_claims(proofs),
        *_unmounted_disk_claims(proofs, bookies, roster),
        *_alias_claims(proofs),
        *_unregistered_claims(proofs, bookies, alias_ids),
        *_overflow_claims(proofs),
    ]
    unread_names = {
        name for claim in claims for name in claim.bookies if "bookie-unread" in claim.bookie_checks
    }
    claims += _unread_claims(proofs, bookies, unread_names)
    gone_claims = _lost_data_claims(bookies, loss_counts or {})
    claims += gone_claims
    claims += _lost_disk_claims(
        roster, loss_counts or {}, {name for claim in gone_claims for name in claim.bookies}
    )
    return claims[:MAX_CLAIMS]


ProofRows = Mapping[str, Mapping[str, Row]]


def _instance_claims(proofs: ProofRows, bookies: Mapping[str, Row]) -> Iterable[Claim]:
    for name, evidence in proofs["instance-mismatch"].items():
        if name in bookies and bookies[name]["foreign_instance"]:
            ids = sorted({cookie["instance_id"] or "none" for cookie in evidence["cookies"]})
            yield Claim(
                "foreign-instance",
                (name,),
                f"all directories of {name} are from another cluster, instance id "
                f"{first_names(ids, _MAX_NAMES)}",
                (("instance-mismatch", name),),
                frozenset(
                    {
                        "instance-mismatch",
                        "metadata-suspect",
                        "bookie-unread",
                        "orphan-ledger",
                        "orphan-stuck",
                    }
                ),
                _UNDECIDED,
            )


def _older_store_claims(proofs: ProofRows, bookies: Mapping[str, Row]) -> Iterable[Claim]:
    evidence_by_bookie = {
        name: evidence
        for name, evidence in proofs["metadata-suspect"].items()
        if "store-older" in evidence["rules"] and not bookies.get(name, {}).get("foreign_instance")
    }
    if evidence_by_bookie:
        lowest_unissued = min(int(evidence["undrawn_lowest"]) for evidence in evidence_by_bookie.values())
        names = tuple(sorted(evidence_by_bookie))
        yield Claim(
            "store-older",
            names,
            f"the metadata is older than the data of {first_names(names, _MAX_NAMES)}. They have ledgers "
            f"from id {lowest_unissued} on, but the store has not given out these ids. The store is a "
            "restored backup, or belongs to another cluster",
            tuple(("metadata-suspect", name) for name in names),
            frozenset({"metadata-suspect", "orphan-ledger"}),
            min_ledger=lowest_unissued,
        )


def _swapped_disk_claims(proofs: ProofRows) -> Iterable[Claim]:
    disk_ids_by_bookie = {
        name: {directory["names"] for directory in evidence["directories"]}
        for name, evidence in proofs["disk-id-mismatch"].items()
    }
    for bookie, disk_ids in sorted(disk_ids_by_bookie.items()):
        for other_bookie in sorted(disk_ids):
            if (
                bookie < other_bookie
                and disk_ids_by_bookie.get(other_bookie) == {bookie}
                and disk_ids == {other_bookie}
            ):
                yield Claim(
                    "disks-swapped",
                    (bookie, other_bookie),
                    f"{bookie} and {other_bookie} have each other's disks",
                    (("disk-id-mismatch", bookie), ("disk-id-mismatch", other_bookie)),
                    frozenset({"disk-id-mismatch", "disk-dirs-disagree"}),
                )


def _unmounted_disk_claims(proofs: ProofRows, bookies: Mapping[str, Row], roster: Roster) -> Iterable[Claim]:
    missing_paths = {
        row["bookie_id"]: len(row["paths"]) for row in roster.starts if row["fault"] == Fault.VERSION_MISSING
    }
    for name, evidence in proofs["disk-version-missing"].items():
        if all(directory["empty"] for directory in evidence["directories"]):
            paths = sorted(directory["path"] for directory in evidence["directories"])
            has_absent_disk = bool(bookies[name]["absent_directories"])
            explained_checks = {"disk-version-missing"} | ({"bookie-unread"} if has_absent_disk else set())
            explained_checks |= {"start-refused"} if missing_paths.get(name) == len(paths) else set()
            yield Claim(
                "disk-not-mounted",
                (name,),
                f"{name} has {_disk_text(paths)} new or not mounted: {first_names(paths, _MAX_NAMES)} "
                f"{'is' if len(paths) == 1 else 'are'} empty",
                (("disk-version-missing", name),),
                frozenset(explained_checks),
                _UNDECIDED if has_absent_disk else frozenset(),
            )


def _disk_text(paths: Sequence[str]) -> str:
    return plural(len(paths), "disk that is", "disks that are")


_GONE_BOOKIE_CHECKS = ("ghost-bookie", "bookie-down", "on-unregistered-bookie")


def _alias_claims(proofs: ProofRows) -> Iterable[Claim]:
    for name, evidence in sorted(proofs["bookie-alias"].items()):
        ids = [name, *sorted({alias_fact["bookie_id"] for alias_fact in evidence["ids"]} - {name})]
        yield Claim(
            "other-id",
            tuple(ids),
            f"{name} is not registered, and is another id of {first_names(ids[1:], _MAX_NAMES)}",
            (("bookie-alias", name),),
            frozenset({"bookie-alias", "alias-gc-danger", "mark-missing", *_GONE_BOOKIE_CHECKS}),
        )


def _unregistered_claims(proofs: ProofRows, bookies: Mapping[str, Row], aliases: Set[str]) -> Iterable[Claim]:
    names = {name for id in ("ghost-bookie", "bookie-down") for name in proofs[id]}
    for name in sorted(names - aliases):
        row = bookies.get(name)
        if row is None or row["registered"] is not None:
            continue
        is_unread = row["read"] == BookieRead.UNREAD and not row["found"]
        facts = ["is not registered"]
        facts += [] if row["has_cookie"] else ["has no cookie"]
        facts += ["has no data that the audit found"] if is_unread else []
        yield Claim(
            "not-registered",
            (name,),
            f"{name} {' and '.join(facts)}",
            tuple((id, name) for id in _GONE_BOOKIE_CHECKS if name in proofs[id]),
            frozenset({*_GONE_BOOKIE_CHECKS, "mark-missing"} | ({"bookie-unread"} if is_unread else set())),
            _UNDECIDED if is_unread else frozenset(),
        )


def _overflow_claims(proofs: ProofRows) -> Iterable[Claim]:
    names = tuple(
        sorted(
            name
            for name, evidence in proofs["gc-would-delete-live"].items()
            if evidence["causes"] == [GcCause.LIST_OVERFLOW]
        )
    )
    if names:
        yield Claim(
            "listing-overflows",
            names,
            f"the garbage collection of {first_names(names, _MAX_NAMES)} overflows at ledger "
            f"{2**63 - 1}, and treats all other ledgers as deleted",
            tuple(("gc-would-delete-live", name) for name in names),
            frozenset({"gc-would-delete-live"}),
        )


def _unread_claims(proofs: ProofRows, bookies: Mapping[str, Row], unread_names: set[str]) -> Iterable[Claim]:
    for name, evidence in sorted(proofs["bookie-unread"].items()):
        if name not in unread_names:
            if absent_paths := bookies[name]["absent_directories"]:
                kind, verb = "disk-not-found", "was" if len(absent_paths) == 1 else "were"
                sentence = (
                    f"{name} has {_disk_text(absent_paths)} not mounted or not given: "
                    f"{first_names(absent_paths, _MAX_NAMES)} {verb} not found"
                )
            else:
                read_text = "was read in part" if evidence["read"] == BookieRead.PARTIAL else "was not read"
                kind, sentence = (
                    "not-read",
                    f"{name} {read_text}: {evidence['reason'] or 'no reason is known'}",
                )
            proof_pairs = (("bookie-unread", name),)
            yield Claim(kind, (name,), sentence, proof_pairs, frozenset({"bookie-unread"}), _UNDECIDED)


def _lost_data_claims(bookies: Mapping[str, Row], loss_counts: LossCounts) -> list[Claim]:
    lost_replicas = {
        name: sum(counts.values())
        for name, counts in sorted(loss_counts.items())
        if name in bookies and _is_nearly_all(sum(counts.values()), bookies[name]["replicas"] or 0)
    }
    if not lost_replicas:
        return []
    names, replicas = tuple(lost_replicas), sum(bookies[name]["replicas"] or 0 for name in lost_replicas)
    sentence = (
        f"{first_names(names, _MAX_NAMES)} {'lacks' if len(names) == 1 else 'lack'} entries in "
        f"{sum(lost_replicas.values()):,} of {plural(replicas, 'replica')}: data is gone"
    )
    return [Claim("data-gone", names, sentence, (), frozenset(), frozenset(COPY_CHECKS))]


def _is_nearly_all(missing_count: int, expected_count: int) -> bool:
    return missing_count >= max(_MIN_LEDGERS, _MIN_LOST_SHARE * expected_count)


def _lost_disk_claims(roster: Roster, loss_counts: LossCounts, gone_bookies: Set[str]) -> Iterable[Claim]:
    for name, index_directories in uneven_directories(roster).items():
        for directory_position, (path, ledgers) in enumerate(index_directories):
            missing_count = loss_counts.get(name, {}).get(directory_position, 0)
            if name not in gone_bookies and _is_nearly_all(missing_count, missing_count + ledgers):
                yield Claim(
                    "disk-lost",
                    (name,),
                    f"{name} lost the data of a disk: entries of {missing_count:,} of "
                    f"{plural(missing_count + ledgers, 'ledger')} that belong in {path} are gone",
                    (),
                    frozenset(),
                    frozenset(COPY_CHECKS),
                    id_modulo=(directory_position, len(index_directories)),
                )


def cause_column(claims: Sequence[Claim]) -> Column:
    """Return the position (from 1) of the first of ``claims`` that explains a finding; null if none does."""
    bookie_ids = F.concat(F.transform("missing", lambda replica: replica["bookie_id"]), F.col("unknown"))
    only_lacking_bookie = F.when(F.size(F.array_distinct(bookie_ids)) == 1, F.get(bookie_ids, F.lit(0)))
    names = {"bookie": F.col("bookie_id"), "copies": only_lacking_bookie}
    # Most claims have one bookie each and explain the same checks, so one map serves them all.
    claims_by_subject: dict[tuple[str, frozenset[str]], dict[str, int]] = {}
    number_columns = [F.lit(None).cast("int")] * 2  # F.least needs at least two columns
    for claim_number, claim in enumerate(claims, 1):
        if len(claim.bookies) > 1 or claim.min_ledger is not None or claim.id_modulo is not None:
            number_columns.append(F.when(_is_explained(claim, bookie_ids), F.lit(claim_number)))
            continue
        for subject, ids in (("bookie", claim.bookie_checks), ("copies", claim.copy_checks)):
            if ids:
                claims_by_subject.setdefault((subject, ids), {}).setdefault(claim.bookies[0], claim_number)
    for (subject, ids), claim_numbers in claims_by_subject.items():
        number_by_bookie = F.create_map(*(F.lit(part) for pair in claim_numbers.items() for part in pair))
        number_columns.append(F.when(F.col("id").isin(*ids), number_by_bookie[names[subject]]))
    return F.least(*number_columns)


def _is_explained(claim: Claim, bookie_ids: Column) -> Column:
    is_of_bookie = F.col("bookie_id").isin(*claim.bookies) & F.col("id").isin(*claim.bookie_checks)
    if claim.min_ledger is not None:
        is_unissued = F.col("ledger_id").isNull() | (F.col("ledger_id") >= claim.min_ledger)
        is_of_bookie &= is_unissued
    if not claim.copy_checks:
        return F.coalesce(is_of_bookie, F.lit(False))
    explains_all = F.size(bookie_ids) > 0
    explains_all &= F.forall(bookie_ids, lambda name: name.isin(*claim.bookies))
    if claim.id_modulo is not None:
        remainder, directory_count = claim.id_modulo
        explains_all &= F.pmod("ledger_id", F.lit(directory_count)) == remainder
    return F.coalesce(is_of_bookie, F.lit(False)) | (F.col("id").isin(*claim.copy_checks) & explains_all)
