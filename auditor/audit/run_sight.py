"""What an audit looks at, before its report says it: findings that it could not see are not fixed."""

from __future__ import annotations

from auditor.actions.run_inputs import RunInputs
from auditor.audit.index_scan import Indexes
from auditor.audit.metadata import ClusterMetadata
from auditor.audit.owner_scan import Owners
from auditor.checks.needs import Sight
from auditor.model.states import BookieRead
from auditor.runs.run_inputs import owner_identities
from auditor.tables import Tables


def sight_of(
    metadata: ClusterMetadata,
    indexes: Indexes,
    tables: Tables,
    owners: Owners,
    bookies_asked: bool,
    not_run: tuple[str, ...],
) -> Sight:
    """What a run looked at, before its report says it (`Sight.of`); what was seen in part counts as seen."""
    source, listed = metadata.source, metadata.bookies_seen()
    return Sight(
        live=source.live,
        two_scans=len(metadata.positions()) > 1,
        keeps_marks=source.store.keeps_marks,
        keeps_times=source.store.keeps_times,
        marks_listed=metadata.second.marks_listed,
        hidden=listed["hidden"],
        instance_id=source.cluster.instance_id is not None,
        sources=bool(indexes.bookies.sources),
        directories=len(indexes.bookies.attribution.directories),
        read=sum(row["read"] == BookieRead.READ for row in tables.roster.bookies),
        witness=bookies_asked,
        entry_logs="entry_logs" in tables.frames,
        deep="digests" in tables.frames,
        owners=owners.rows is not None,
        offload_listing="offload_objects" in tables.frames,
        placement=tables.cluster.placement is not None,
        registrations=tables.cluster.repair.knows_registrations,
        not_run=not_run,
    )


def inputs_of(sight: Sight, tables: Tables, has_gone_entries: bool) -> RunInputs:
    """What the run was given to read; ``has_gone_entries``: an index has entries in logs that are gone."""
    stores = owner_identities(tables.roster.owner_stores)
    return RunInputs(int(sight.entry_logs), int(sight.witness is True), stores, int(has_gone_entries))
