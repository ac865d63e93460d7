"""Whether writes continue after a failure, for each shape of ledger and each isolation group.

A shape is an ensemble size with a write quorum and an ack quorum. A ledger can be created if the writable
bookies contain an ensemble that the policy accepts. An ensemble that lost members needs one replacement
from outside the ensemble for each lost member.

If a namespace has a bookie affinity group, brokers write the isolation groups into the ledger's custom
metadata. They also place the ledger according to these groups. AutoRecovery uses these groups if its policy
is Pulsar's and its configuration has the setting for groups. Pulsar's policy is rack-aware, whatever policy
other ledgers use.
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
    ISOLATING_POLICY_CLASSES,
    POLICY_BY_CLASS,
    POLICY_LEVEL,
    IsolationGroups,
    Locations,
    PlacementSettings,
    Policy,
)
from auditor.model.replacements import SYSTEM_GROUP, can_form_ensemble, find_excluded, refuses_by_location
from auditor.model.simulation import NO, UNKNOWN_ANSWER, YES, WriteAnswer
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Longs

METADATA_COLUMN = "custom_metadata"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation groups of a ledger. ``groups`` is None if the ledger may use any bookie.

    ``is_from_metadata`` is True if the groups come from the ledger's metadata, and False if they come from
    the configuration. ``is_known`` is False if the bookies of the groups are unknown. It is also False if the
    groups in the metadata cannot be read.
    """

    groups: IsolationGroups | None
    is_from_metadata: bool
    is_known: bool

    @property
    def group_text(self) -> str | None:
        """Return the groups from the ledger's metadata in words. None if its metadata has no groups.

        >>> Isolation(IsolationGroups(("fast",), ("slow",)), is_from_metadata=True, is_known=True).group_text
        'groups fast, then slow'
        """
        if not self.is_from_metadata:
            return None
        return "groups that cannot be read" if self.groups is None else f"groups {self.groups.text}"

    def bookies_outside_groups(
        self, ensemble_size: int, locations: Locations, bookies: Sequence[str]
    ) -> frozenset[str]:
        """Return the bookies in ``bookies`` that an ensemble of ``ensemble_size`` bookies must not use.

        The isolation groups exclude these bookies.
        """
        return find_excluded(ensemble_size, locations, bookies, self.groups)

    def settings(self, cluster_settings: PlacementSettings) -> PlacementSettings:
        """Return ``cluster_settings``, with Pulsar's policy if the groups come from the ledger's metadata."""
        return replace(cluster_settings, policy=Policy.RACK) if self.is_from_metadata else cluster_settings


_UNREADABLE_ISOLATION = Isolation(None, is_from_metadata=True, is_known=False)


class IsolationNumbers:
    """Numbers for isolation groups. A number is an index into ``isolations``.

    Number 0 stands for the configured groups. ``columns`` has the columns of the table ``ledgers`` that show
    the groups of a ledger. It is empty if the run's report says that no ledger has groups in its metadata.
    """

    def __init__(self, run: RunReader, placement_settings: PlacementSettings, locations: Locations) -> None:
        placement_facts = run.report.run.placement
        self.columns = (
            () if placement_facts is not None and not placement_facts["own_groups"] else (METADATA_COLUMN,)
        )
        self._has_groups = any(bookie_location.groups for bookie_location in locations.by_bookie.values())
        self.isolations = [self._make_isolation(placement_settings.groups, is_from_metadata=False)]

    def number_isolations(self, ledgers: pa.RecordBatch) -> Longs:
        """Return the number of the isolation groups of each row of the table ``ledgers``."""
        if not self.columns:
            return np.zeros(len(ledgers), np.int64)
        config_key = pa.scalar(placement_config.KEY)
        config_values = pc.map_lookup(
            ledgers[METADATA_COLUMN], query_key=config_key, occurrence="last"
        ).dictionary_encode()
        numbers_of_values = [
            self._isolation_number(encoded_config) for encoded_config in config_values.dictionary.to_pylist()
        ]
        value_positions: Longs = config_values.indices.fill_null(len(numbers_of_values)).to_numpy(
            zero_copy_only=False
        )
        isolation_numbers: Longs = np.array([*numbers_of_values, 0], np.int64)[value_positions]
        return isolation_numbers

    def _isolation_number(self, encoded_config: bytes) -> int:
        isolation = self._decode_isolation(encoded_config) or self.isolations[0]
        if isolation not in self.isolations:
            self.isolations.append(isolation)
        return self.isolations.index(isolation)

    def _decode_isolation(self, encoded_config: bytes) -> Isolation | None:
        """Return the isolation groups in a ledger's metadata. None if its policy uses no groups."""
        try:
            ledger_placement = placement_config.decode(encoded_config)
        except DecodeError:
            return _UNREADABLE_ISOLATION
        policy_name = ledger_placement.policy_class.rpartition(".")[2]
        if policy_name in ISOLATING_POLICY_CLASSES:
            return self._make_isolation(ledger_placement.groups, is_from_metadata=True)
        return None if policy_name in POLICY_BY_CLASS else _UNREADABLE_ISOLATION

    def _make_isolation(self, groups: IsolationGroups | None, *, is_from_metadata: bool) -> Isolation:
        return Isolation(
            groups, is_from_metadata, groups is None or SYSTEM_GROUP in groups.primary or self._has_groups
        )


QuorumShape = tuple[int, int, int]


def write_answers(
    ledger_counts_by_shape: Mapping[tuple[int, int, int, bool, int], int],
    isolations: Sequence[Isolation],
    writable_bookies: list[str],
    placement_settings: PlacementSettings,
    locations: Locations,
) -> tuple[WriteAnswer, ...]:
    """Return, for each combination of ensemble size, quorums and isolation groups, whether writes go on.

    The keys of ``ledger_counts_by_shape`` are (E, Qw, Qa, not closed, index in ``isolations``).
    ``writable_bookies`` are the bookies that are still writable after the failure.
    """
    open_ledger_counts: Counter[tuple[QuorumShape, int]] = Counter()
    for (
        ensemble_size,
        write_quorum,
        ack_quorum,
        is_not_closed,
        isolation_number,
    ), ledger_count in ledger_counts_by_shape.items():
        open_ledger_counts[(ensemble_size, write_quorum, ack_quorum), isolation_number] += (
            ledger_count if is_not_closed else 0
        )
    answers = []
    for (quorum_shape, isolation_number), ledger_count in sorted(open_ledger_counts.items()):
        isolation = isolations[isolation_number]
        write_answer, reason_text = _write_answer(
            quorum_shape, isolation, writable_bookies, placement_settings, locations
        )
        answers.append(
            WriteAnswer(*quorum_shape, isolation.group_text, ledger_count, write_answer, reason_text)
        )
    return tuple(answers)


def _write_answer(
    quorum_shape: QuorumShape,
    isolation: Isolation,
    writable_bookies: list[str],
    placement_settings: PlacementSettings,
    locations: Locations,
) -> tuple[str, str]:
    excluded_bookies = (
        isolation.bookies_outside_groups(quorum_shape[0], locations, writable_bookies)
        if isolation.is_known
        else frozenset()
    )
    group_bookies = [bookie for bookie in writable_bookies if bookie not in excluded_bookies]
    placement_settings = isolation.settings(placement_settings)
    location_paths = [locations.path(bookie) for bookie in group_bookies]
    can_form = can_form_ensemble(
        quorum_shape,
        location_paths,
        placement_settings,
        [locations.path(bookie) for bookie in excluded_bookies],
    )
    bookies_text = plural(len(group_bookies), "writable bookie") + (
        " in these groups" if excluded_bookies else ""
    )
    if len(group_bookies) < quorum_shape[0]:
        return NO, f"{bookies_text} for an ensemble of {quorum_shape[0]}"
    if not isolation.is_known:
        return (
            UNKNOWN_ANSWER,
            f"{bookies_text}; it is unknown which of these bookies are in the ledgers' isolation groups",
        )
    if not refuses_by_location(placement_settings):
        return YES, bookies_text
    placement_level = POLICY_LEVEL[placement_settings.policy]
    domains = {locations.domain(bookie, placement_level) for bookie in group_bookies}
    bookies_text += f" in {plural(len(domains - {None}), str(placement_level))}"
    if can_form is not None:
        return (YES if can_form else NO), f"{bookies_text}, according to policy {placement_settings.policy}"
    if None in domains:
        return UNKNOWN_ANSWER, f"{bookies_text}, and some without a location"
    return (
        UNKNOWN_ANSWER,
        f"{bookies_text}, but policy {placement_settings.policy} may refuse, depending on its earlier "
        "choices",
    )
