"""Answers on whether writes continue after a failure, for each shape of ledger and isolation group.

A shape is an ensemble size with a write and an ack quorum. A ledger can be created if the writable bookies
contain an ensemble that the policy accepts. An ensemble that lost members needs one replacement from
outside the ensemble for each lost member.

For a namespace with a bookie affinity group, brokers write the isolation groups into the ledger's custom
metadata, and place the ledger by them. AutoRecovery uses these groups if its policy is Pulsar's and its
configuration has the setting for groups. Pulsar's policy is rack-aware, whatever policy other ledgers use.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.codecs.pulsar import placement_config
from auditor.errors import DecodeError
from auditor.model.amounts import plural
from auditor.model.placement import (
    ISOLATING_POLICIES,
    POLICY_BY_CLASS,
    POLICY_LEVEL,
    IsolationGroups,
    Locations,
    PlacementSettings,
    Policy,
)
from auditor.model.replacements import SYSTEM_GROUP, can_form_ensemble, outside_groups, refuses_by_location
from auditor.model.simulation import NO, UNSURE, YES, WriteAnswer
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Longs

METADATA_COLUMN = "custom_metadata"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation groups of a ledger. ``groups`` is None if it may use any bookie.

    ``own`` is whether the groups come from the ledger's own metadata. ``is_known`` is False if the members of
    the groups are unknown, or the ledger's own groups cannot be read.
    """

    groups: IsolationGroups | None
    own: bool
    is_known: bool

    @property
    def words(self) -> str | None:
        """Return the ledger's own groups in words. None if it has no groups of its own.

        >>> Isolation(IsolationGroups(("fast",), ("slow",)), own=True, is_known=True).words
        'groups fast, then slow'
        """
        if not self.own:
            return None
        return "groups that cannot be read" if self.groups is None else f"groups {self.groups.text}"

    def bookies_outside_groups(
        self, ensemble_size: int, locations: Locations, bookies: Sequence[str]
    ) -> frozenset[str]:
        """Return the bookies that an ensemble must not use because of the groups."""
        return outside_groups(ensemble_size, locations, bookies, self.groups)

    def settings(self, cluster_settings: PlacementSettings) -> PlacementSettings:
        """Return the settings by which the ledger is placed: Pulsar's policy if it has groups of its own."""
        return replace(cluster_settings, policy=Policy.RACK) if self.own else cluster_settings


_UNREADABLE_ISOLATION = Isolation(None, own=True, is_known=False)


class IsolationNumbers:
    """Numbers that stand for isolation groups: indexes in ``isolations``.

    0 stands for the configured groups.

    ``columns`` are the columns of the table ``ledgers`` that are needed to find the groups. They are empty if
    the run's report says that no ledger has groups of its own.
    """

    def __init__(self, run: RunReader, settings: PlacementSettings, locations: Locations) -> None:
        placement_facts = run.report.run.placement
        self.columns = (
            () if placement_facts is not None and not placement_facts["own_groups"] else (METADATA_COLUMN,)
        )
        self._has_groups = any(location_groups.groups for location_groups in locations.by_bookie.values())
        self.isolations = [self._make_isolation(settings.groups, own=False)]

    def of(self, ledgers: pa.RecordBatch) -> Longs:
        """Return the number of the isolation groups of each row of the table ``ledgers``."""
        if not self.columns:
            return np.zeros(len(ledgers), np.int64)
        key = pa.scalar(placement_config.KEY)
        values = pc.map_lookup(ledgers[METADATA_COLUMN], query_key=key, occurrence="last").dictionary_encode()
        numbers = [self._isolation_number(config_value) for config_value in values.dictionary.to_pylist()]
        number_positions: Longs = values.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
        isolation_numbers: Longs = np.array([*numbers, 0], np.int64)[number_positions]
        return isolation_numbers

    def _isolation_number(self, group_value: bytes) -> int:
        isolation = self._decode_isolation(group_value) or self.isolations[0]
        if isolation not in self.isolations:
            self.isolations.append(isolation)
        return self.isolations.index(isolation)

    def _decode_isolation(self, group_value: bytes) -> Isolation | None:
        """Return a ledger's own isolation groups, from its metadata. None if its policy uses none."""
        try:
            placement = placement_config.decode(group_value)
        except DecodeError:
            return _UNREADABLE_ISOLATION
        name = placement.policy_class.rpartition(".")[2]
        if name in ISOLATING_POLICIES:
            return self._make_isolation(placement.groups, own=True)
        return None if name in POLICY_BY_CLASS else _UNREADABLE_ISOLATION

    def _make_isolation(self, groups: IsolationGroups | None, *, own: bool) -> Isolation:
        return Isolation(groups, own, groups is None or SYSTEM_GROUP in groups.primary or self._has_groups)


QuorumShape = tuple[int, int, int]


def write_answers(
    shapes: Mapping[tuple[int, int, int, bool, int], int],
    isolations: Sequence[Isolation],
    writable: list[str],
    settings: PlacementSettings,
    locations: Locations,
) -> tuple[WriteAnswer, ...]:
    """Return one answer for each shape of ledgers, and each isolation among its ledgers.

    The keys of ``shapes`` are (E, Qw, Qa, not closed, index in ``isolations``). ``writable`` are the bookies
    that are still writable after the failure.
    """
    open_counts: Counter[tuple[QuorumShape, int]] = Counter()
    for (ensemble_size, write_quorum, ack_quorum, is_open, isolation_number), ledger_count in shapes.items():
        open_counts[(ensemble_size, write_quorum, ack_quorum), isolation_number] += (
            ledger_count if is_open else 0
        )
    answers = []
    for (shape, isolation_number), ledger_count in sorted(open_counts.items()):
        isolation = isolations[isolation_number]
        answer, reason = _write_answer(shape, isolation, writable, settings, locations)
        answers.append(WriteAnswer(*shape, isolation.words, ledger_count, answer, reason))
    return tuple(answers)


def _write_answer(
    shape: QuorumShape,
    isolation: Isolation,
    writable: list[str],
    settings: PlacementSettings,
    locations: Locations,
) -> tuple[str, str]:
    excluded_bookies = (
        isolation.bookies_outside_groups(shape[0], locations, writable) if isolation.is_known else frozenset()
    )
    group_bookies = [name for name in writable if name not in excluded_bookies]
    settings = isolation.settings(settings)
    paths = [locations.path(name) for name in group_bookies]
    can_write = can_form_ensemble(shape, paths, settings, [locations.path(name) for name in excluded_bookies])
    bookies_text = plural(len(group_bookies), "writable bookie") + (
        " in its groups" if excluded_bookies else ""
    )
    if len(group_bookies) < shape[0]:
        return NO, f"{bookies_text} for an ensemble of {shape[0]}"
    if not isolation.is_known:
        return UNSURE, f"{bookies_text}; it is unknown which of them are in its isolation groups"
    if not refuses_by_location(settings):
        return YES, bookies_text
    level = POLICY_LEVEL[settings.policy]
    domains = {locations.domain(name, level) for name in group_bookies}
    bookies_text += f" in {plural(len(domains - {None}), str(level))}"
    if can_write is not None:
        return (YES if can_write else NO), f"{bookies_text}, by policy {settings.policy}"
    if None in domains:
        return UNSURE, f"{bookies_text}, and some without a location"
    return (
        UNSURE,
        f"{bookies_text}, and policy {settings.policy} may refuse, depending on its earlier choices",
    )
