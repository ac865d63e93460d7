"""placement, bookie_locations: segments that break the placement policy, or have all copies in one domain.

The program judges every segment of every ledger. This includes empty segments, and segments of ledgers that
are not closed. The input consists of the files of the table ``ledgers``, and many ensembles are judged at
once. Healthy segments have no row. Some segments break the policy only because of their ensemble size and
write quorum. They have no row either, because the table ``ledgers`` has both numbers. The table
bookie_locations has the location of each bookie and the source of that location.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.model.adherence import (
    Adherence,
    EncodedView,
    Flags,
    Numbers,
    ServerView,
    depth_of,
    distinct_rows,
    domain_codes,
    flag_undurable_windows,
    judge_ensembles,
    sole_domains,
)
from auditor.model.columns import LEDGER, make_schema
from auditor.model.ledger_metadata import LedgerState
from auditor.model.placement import POLICY_LEVEL, Location, Locations, PlacementSettings, Policy
from auditor.spark.batches import from_files
from auditor.spark.part_tables import PartTable
from auditor.spark.table_files import TableFiles
from auditor.spark.types import SparkSession

_NAMES_TYPE = pa.list_(pa.string())
_ROWS_PER_BATCH = 1 << 15
_OPEN_SEGMENT_END = 1 << 62

PLACEMENT = make_schema(
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("state", pa.string(), "OPEN, IN_RECOVERY or CLOSED"),
    ("write_quorum", pa.int32(), "write quorum: number of bookies to which the writer sends each entry"),
    (
        "ack_quorum",
        pa.int32(),
        "ack quorum: number of bookies that must confirm an entry before it is acknowledged to the writer",
    ),
    ("first_entry_id", pa.int64(), "the first entry of the segment"),
    (
        "violated",
        pa.bool_(),
        "whether the server's placement policy class returns FAIL for the segment. false: it does "
        "not, but the segment is at risk",
    ),
    (
        "excused",
        pa.bool_(),
        "whether the segment would pass the policy if every bookie with a location were writable",
    ),
    ("windows", pa.int32(), "number of the segment's write sets that have the result in the column violated"),
    ("bookies", _NAMES_TYPE, "bookies of the first write set that has the result in the column violated"),
    ("locations", _NAMES_TYPE, "locations of the write set's bookies in the mapping; null: not known"),
    ("unwritable", _NAMES_TYPE, "those bookies in the column bookies that are not writable"),
    (
        "domain",
        pa.string(),
        "the one rack, zone or region that has all copies of the write set; null: several have copies",
    ),
)


@dataclass(frozen=True)
class PlacementJudge:
    """The rules and locations by which segments are judged. Spark tasks receive this object.

    Bookies are represented by their positions in ``bookie_names``. A view is one possible state of a server's
    knowledge of racks, and ``encoded_views`` has all of them. There is only one view, except for a rack
    policy with locations of mixed depths. Then there is one view for each depth that may have been registered
    first. A segment is broken only if it breaks the policy in all views. ``all_writable_view`` is the view of
    a server for which every bookie with a location is writable. ``location_paths`` and ``domains`` are the
    locations and domains of the bookies in the mapping.
    """

    settings: PlacementSettings
    bookie_names: Sequence[str]
    encoded_views: Sequence[EncodedView]
    all_writable_view: EncodedView
    location_paths: Sequence[str | None]
    domains: Sequence[str | None]
    domain_codes: Numbers
    is_writable: Flags

    @classmethod
    def for_cluster(
        cls,
        settings: PlacementSettings,
        locations: Locations,
        bookie_names: Sequence[str],
        writable_bookies: Collection[str],
        registered_bookies: Collection[str],
    ) -> PlacementJudge:
        """Return the judge for a cluster. ``bookie_names`` are all bookies that ensembles may name."""
        location_level = POLICY_LEVEL[settings.policy]
        view = ServerView.from_locations(
            locations, settings.policy, bookie_names, writable_bookies, registered_bookies
        )
        location_depths = sorted({depth_of(view.paths[name]) for name in view.choosable_bookies})
        has_mixed_depths = settings.policy is Policy.RACK and len(location_depths) > 1
        views = [
            ServerView.from_locations(
                locations,
                settings.policy,
                bookie_names,
                writable_bookies,
                registered_bookies,
                registered_depth,
            )
            for registered_depth in (location_depths if has_mixed_depths else [None])
        ]
        located_bookies = [name for name in bookie_names if locations.path(name)]
        all_writable_view = ServerView.from_locations(
            locations, settings.policy, bookie_names, located_bookies
        )
        return cls(
            settings,
            bookie_names,
            [EncodedView.from_server_view(server_view, bookie_names) for server_view in views],
            EncodedView.from_server_view(all_writable_view, bookie_names),
            [locations.path(name) for name in bookie_names],
            [locations.domain(name, location_level) for name in bookie_names],
            domain_codes(locations, location_level, bookie_names),
            np.array([name in view.choosable_bookies for name in bookie_names], np.bool_),
        )


def placement(spark: SparkSession, ledgers: TableFiles, judge: PlacementJudge) -> PartTable:
    """Return the table ``placement``, made from the files of the table ``ledgers``."""
    return from_files(spark, PLACEMENT, ledgers, partial(judge_files, judge=judge))


_LEDGER_COLUMNS = (*LEDGER, "state", "write_quorum", "ack_quorum")
_READ_COLUMNS = (*_LEDGER_COLUMNS, "undecidable", "last_entry_id", "segments")


def judge_files(files: TableFiles, judge: PlacementJudge) -> Iterator[pa.RecordBatch]:
    """Return the rows of `PLACEMENT` for the ledgers in some files."""
    for rows in files.row_groups(_READ_COLUMNS, (), _ROWS_PER_BATCH):
        is_decodable = pc.and_(rows["ledger_id"].is_valid(), pc.equal(rows["undecidable"], False))
        decodable_rows = rows.filter(is_decodable)
        if decodable_rows.num_rows:
            yield from judge_placement(decodable_rows.combine_chunks(), judge).to_batches()


def judge_placement(rows: pa.Table, judge: PlacementJudge) -> pa.Table:
    """Return the rows of `PLACEMENT` for some rows of the table ``ledgers``."""
    segments = _Segments.from_rows(rows, judge.bookie_names)
    verdicts = _Verdicts.without_faults(len(segments.ledger_rows))
    segments_with_quorum = np.flatnonzero((segments.ensemble_sizes > 0) & (segments.write_quorum > 0))
    segment_quorums = np.stack([segments.ensemble_sizes, segments.write_quorum, segments.ack_quorum], axis=1)[
        segments_with_quorum
    ]
    quorum_of_segment, example_rows = distinct_rows(segment_quorums)
    for quorum_number in range(len(example_rows)):
        verdicts.judge_segments(segments, segments_with_quorum[quorum_of_segment == quorum_number], judge)
    return _placement_table(rows, segments, verdicts, judge)


@dataclass(frozen=True)
class _Segments:
    """All segments of some ledgers, in order, as columns.

    ``ledger_rows`` has the row number of each segment's ledger. ``members`` has the bookies of all
    segments, as numbers. ``member_starts`` has the position in ``members`` at which each segment's bookies
    start. ``has_entries`` is also True for the open end of a ledger.
    """

    ledger_rows: NDArray[np.int64]
    first_entries: NDArray[np.int64]
    has_entries: Flags
    members: Numbers
    member_starts: NDArray[np.int64]
    ensemble_sizes: NDArray[np.int64]
    write_quorum: NDArray[np.int64]
    ack_quorum: NDArray[np.int64]

    @classmethod
    def from_rows(cls, rows: pa.Table, bookie_names: Sequence[str]) -> _Segments:
        segment_lists = rows["segments"].combine_chunks()
        ledger_rows = pc.list_parent_indices(segment_lists).to_numpy()
        segments = segment_lists.flatten()
        first_entries, ensembles = segments.field("first_entry_id").to_numpy(), segments.field("ensemble")
        ensemble_sizes = pc.list_value_length(ensembles).to_numpy().astype(np.int64)
        # A segment ends before the next one of its ledger, the last at the end of a closed ledger.
        is_closed = pc.equal(rows["state"], LedgerState.CLOSED).to_numpy()
        segment_ends = np.where(is_closed, rows["last_entry_id"].to_numpy() + 1, _OPEN_SEGMENT_END)[
            ledger_rows
        ]
        rows_with_next_segment = np.flatnonzero(ledger_rows[1:] == ledger_rows[:-1])
        segment_ends[rows_with_next_segment] = np.minimum(
            first_entries[rows_with_next_segment + 1], segment_ends[rows_with_next_segment]
        )
        members = pc.index_in(ensembles.flatten(), pa.array(bookie_names, pa.string())).to_numpy()
        quorums = (
            rows[name].to_numpy().astype(np.int64)[ledger_rows] for name in ("write_quorum", "ack_quorum")
        )
        return cls(
            ledger_rows,
            first_entries,
            first_entries < segment_ends,
            members,
            np.cumsum(ensemble_sizes) - ensemble_sizes,
            ensemble_sizes,
            *quorums,
        )


@dataclass(frozen=True)
class _Verdicts:
    """The verdicts on segments, as arrays with one element per segment.

    A segment is broken if it breaks the policy. Any other segment is at risk if it has entries and an unsafe
    write set. For example, all copies of such a write set are in one failure domain. A broken segment is
    excused if it would not be broken with all bookies writable. ``first_write_sets`` has the position of the
    first write set that breaks the policy or is at risk. ``write_set_counts`` has the number of such write
    sets.
    """

    is_broken: Flags
    is_excused: Flags
    is_at_risk: Flags
    first_write_sets: NDArray[np.int64]
    write_set_counts: NDArray[np.int64]
    in_one_domain: Flags

    @classmethod
    def without_faults(cls, segment_count: int) -> _Verdicts:
        is_broken, is_excused, is_at_risk, in_one_domain = np.zeros((4, segment_count), np.bool_)
        first_write_sets, write_set_counts = np.zeros((2, segment_count), np.int64)
        return cls(is_broken, is_excused, is_at_risk, first_write_sets, write_set_counts, in_one_domain)

    def judge_segments(self, segments: _Segments, rows: NDArray[np.int64], judge: PlacementJudge) -> None:
        """Judge segments that have the same ensemble size and quorums. Equal ensembles are judged once."""
        ensemble_size, write_quorum, ack_quorum = (
            int(column[rows[0]])
            for column in (segments.ensemble_sizes, segments.write_quorum, segments.ack_quorum)
        )
        all_ensembles = segments.members[segments.member_starts[rows][:, None] + np.arange(ensemble_size)]
        ensemble_numbers, example_rows = distinct_rows(all_ensembles)
        ensembles = all_ensembles[example_rows]
        judgements = [
            judge_ensembles(ensembles, write_quorum, view, judge.settings, judges_locations_only=True)
            for view in judge.encoded_views
        ]
        is_broken = np.logical_and.reduce([judgement.adherence == Adherence.FAIL for judgement in judgements])
        domain_codes = judge.domain_codes[ensembles]
        in_one_domain = sole_domains(domain_codes, write_quorum) >= 0
        is_unsafe_write_set = in_one_domain
        if judge.settings.policy is Policy.REGION and judge.settings.regions_to_write and write_quorum > 1:
            is_unsafe_write_set = in_one_domain | flag_undurable_windows(
                domain_codes, write_quorum, ack_quorum, judge.settings.min_regions
            )
        is_reported = np.where(is_broken[:, None], judgements[0].broken_windows, is_unsafe_write_set)
        first_write_sets = is_reported.argmax(axis=1)
        all_writable_judgement = judge_ensembles(
            ensembles, write_quorum, judge.all_writable_view, judge.settings, judges_locations_only=True
        )
        self.is_broken[rows] = is_broken[ensemble_numbers]
        self.is_excused[rows] = (is_broken & (all_writable_judgement.adherence != Adherence.FAIL))[
            ensemble_numbers
        ]
        self.is_at_risk[rows] = (is_unsafe_write_set.any(axis=1) & ~is_broken)[
            ensemble_numbers
        ] & segments.has_entries[rows]
        self.first_write_sets[rows], self.write_set_counts[rows] = (
            first_write_sets[ensemble_numbers],
            is_reported.sum(axis=1)[ensemble_numbers],
        )
        self.in_one_domain[rows] = in_one_domain[np.arange(len(first_write_sets)), first_write_sets][
            ensemble_numbers
        ]


def _placement_table(
    rows: pa.Table, segments: _Segments, verdicts: _Verdicts, judge: PlacementJudge
) -> pa.Table:
    reported_segments = np.flatnonzero(verdicts.is_broken | verdicts.is_at_risk)
    write_quorum = segments.write_quorum[reported_segments]
    quorum_offsets = np.concatenate([[0], np.cumsum(write_quorum)])
    # The members of each reported write set, concatenated.
    position_in_quorum = np.arange(quorum_offsets[-1]) - np.repeat(quorum_offsets[:-1], write_quorum)
    ensemble_index = (
        np.repeat(verdicts.first_write_sets[reported_segments], write_quorum) + position_in_quorum
    ) % np.repeat(segments.ensemble_sizes[reported_segments], write_quorum)
    members = segments.members[
        np.repeat(segments.member_starts[reported_segments], write_quorum) + ensemble_index
    ]
    is_unwritable = ~judge.is_writable[members]
    first_members = members[quorum_offsets[:-1]]
    in_one_domain = pa.array(verdicts.in_one_domain[reported_segments])
    columns: dict[str, Any] = {
        name: pc.array_take(rows[name].combine_chunks(), pa.array(segments.ledger_rows[reported_segments]))
        for name in _LEDGER_COLUMNS
    }
    columns |= {
        "first_entry_id": segments.first_entries[reported_segments],
        "violated": verdicts.is_broken[reported_segments],
        "excused": verdicts.is_excused[reported_segments],
        "windows": verdicts.write_set_counts[reported_segments].astype(np.int32),
        "bookies": _list_column(judge.bookie_names, members, quorum_offsets),
        "locations": _list_column(judge.location_paths, members, quorum_offsets),
        "unwritable": _list_column(
            judge.bookie_names,
            members[is_unwritable],
            np.concatenate([[0], np.cumsum(is_unwritable)])[quorum_offsets],
        ),
        "domain": pc.if_else(
            in_one_domain, pc.array_take(pa.array(judge.domains, pa.string()), pa.array(first_members)), None
        ),
    }
    return pa.table([columns[name] for name in PLACEMENT.names], schema=PLACEMENT)


def _list_column(
    member_texts: Sequence[str | None], text_numbers: Numbers, quorum_offsets: NDArray[np.int64]
) -> pa.ListArray:
    quorum_texts = pc.array_take(pa.array(member_texts, pa.string()), pa.array(text_numbers))
    return pa.ListArray.from_arrays(pa.array(quorum_offsets, pa.int32()), quorum_texts)


BOOKIE_LOCATIONS = make_schema(
    ("bookie_id", pa.string(), "a bookie id of the table bookies, or of Pulsar's isolation groups"),
    (
        "location",
        pa.string(),
        "location of the bookie in the server's form, such as /region/rack. null: not known, or the "
        "id belongs to no bookie",
    ),
    ("given", pa.string(), "location as written in the mapping; null: the mapping has no location"),
    ("groups", pa.list_(pa.string()), "Pulsar's isolation groups of the bookie"),
    ("origin", pa.string(), "file, script or key that gives the location; null: no location"),
)


def locations_of(rows: Iterable[Mapping[str, Any]], location_source: str | None) -> Locations:
    """Return the locations of bookies from rows of ``bookie_locations``.

    ``location_source`` is the name of their source.
    """
    bookie_locations = {
        row["bookie_id"]: Location(row["location"], tuple(row["groups"]), row["origin"], row["given"])
        for row in rows
    }
    return Locations(bookie_locations, location_source)
