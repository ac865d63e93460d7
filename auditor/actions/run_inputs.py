"""What a run was given to read: a later run that was given less does not see all that this one did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from auditor.checks import ALL, Basis
from auditor.checks.needs import Need
from auditor.findings.basis import STAGES
from auditor.model.holds import FactReason


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run read only because an option asked for it; on that, findings and holds of some reasons rest.

    Args:
        entry_logs: 1 if the bookies' entry logs were read, else 0.
        answers: 1 if bookies of a live store were asked for entries, else 0.
        owner_stores: The stores of owners that were read, sorted, by what names each in every run
            (`auditor.tables.owner_stores.store_identity`). `UNNAMED` is one of a run of an earlier version.
        gone_entries: 1 if an index has entries in entry logs that were read and are not there, else 0: then
            copies are missing that an index alone does not miss.
    """

    entry_logs: int = 0
    answers: int = 0
    owner_stores: tuple[str, ...] = ()
    gone_entries: int = 0

    def joined(self, other: RunInputs) -> RunInputs:
        """The most that one of two runs read of each."""
        return RunInputs(
            max(self.entry_logs, other.entry_logs),
            max(self.answers, other.answers),
            tuple(sorted((Counter(self.owner_stores) | Counter(other.owner_stores)).elements())),
            max(self.gone_entries, other.gone_entries),
        )

    def reasons_unseen(self, earlier: RunInputs) -> frozenset[str]:
        """Checks, and reasons of holds, of an earlier run that this one may not see, as it read less."""
        reasons: set[str] = set()
        if self.entry_logs < earlier.entry_logs:
            reasons |= _OF_ENTRY_LOGS
            reasons |= {*STAGES} if earlier.gone_entries else set()
        if self.answers < earlier.answers:
            reasons |= {check.id for check in ALL if Need.WITNESS in check.all_needs}
        if self._lacks_owners_of(earlier):
            reasons |= {check.id for check in ALL if check.rests_on.way == Basis.OWNERS.way}
            reasons.add(FactReason.UNREAD_DISK)  # what is missing may be what an owner names
        return frozenset(reasons)

    def _lacks_owners_of(self, earlier: RunInputs) -> bool:
        """Whether a store of owners that the earlier run read was not read, or another one in its place."""
        swapped = Counter(earlier.owner_stores) - Counter(self.owner_stores)
        return any(swapped.keys() - {UNNAMED}) or len(self.owner_stores) < len(earlier.owner_stores)


UNNAMED = ""
"""A store of owners of which an earlier version's run says only that there was one."""
_OF_ENTRY_LOGS = frozenset({"gc-would-delete-live", str(FactReason.UNINDEXED_BYTES)})
"""Reasons that entry logs show, or may show; checks that rest on nothing else are `Change.UNSEEN` anyway."""
