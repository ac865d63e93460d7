"""Inputs of a run: a later run with fewer inputs cannot see everything that the earlier one saw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from auditor.checks import ALL, Basis
from auditor.checks.needs import Need
from auditor.findings.basis import TROUBLE_STAGES
from auditor.model.holds import FactReason


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Inputs that a run read only because of an option; some findings and holds rest on them.

    Args:
        entry_logs: 1 if the bookies' entry logs were read, else 0.
        answers: 1 if bookies of a live store were asked for entries, else 0.
        owner_stores: identities of the stores of owners that were read, sorted. A store has the same identity
            in every run (`auditor.tables.owner_stores.store_identity`), except that runs of an earlier
            version have `UNNAMED`.
        gone_entries: 1 if an index has entries in missing entry logs, else 0. Only the entry logs show that
            these copies are missing.
    """

    entry_logs: int = 0
    answers: int = 0
    owner_stores: tuple[str, ...] = ()
    gone_entries: int = 0

    def joined(self, other_inputs: RunInputs) -> RunInputs:
        """Return the inputs that one or both of the two runs had."""
        return RunInputs(
            max(self.entry_logs, other_inputs.entry_logs),
            max(self.answers, other_inputs.answers),
            tuple(sorted((Counter(self.owner_stores) | Counter(other_inputs.owner_stores)).elements())),
            max(self.gone_entries, other_inputs.gone_entries),
        )

    def reasons_unseen(self, earlier_inputs: RunInputs) -> frozenset[str]:
        """Return checks, and reasons of holds, that ``earlier_inputs`` could see and these inputs cannot."""
        reasons: set[str] = set()
        if self.entry_logs < earlier_inputs.entry_logs:
            reasons |= _ENTRY_LOG_REASONS
            reasons |= {*TROUBLE_STAGES} if earlier_inputs.gone_entries else set()
        if self.answers < earlier_inputs.answers:
            reasons |= {check.id for check in ALL if Need.BOOKIE_ANSWERS in check.all_needs}
        if self._lacks_owner_stores(earlier_inputs):
            reasons |= {check.id for check in ALL if check.rests_on.way == Basis.OWNERS.way}
            reasons.add(FactReason.UNREAD_DISK)  # the missing ledgers may be those that an owner names
        return frozenset(reasons)

    def _lacks_owner_stores(self, earlier_inputs: RunInputs) -> bool:
        """Return whether a store of owners that the earlier run read is missing, or replaced by another."""
        missing_stores = Counter(earlier_inputs.owner_stores) - Counter(self.owner_stores)
        return any(missing_stores.keys() - {UNNAMED}) or len(self.owner_stores) < len(
            earlier_inputs.owner_stores
        )


UNNAMED = ""
"""Identity of each store of owners in a run of an earlier version, which only kept the number of stores."""
_ENTRY_LOG_REASONS = frozenset({"gc-would-delete-live", str(FactReason.UNINDEXED_BYTES)})
"""Reasons of holds that only entry logs show, without checks that do not run at all if there are no logs."""
