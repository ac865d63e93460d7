"""Optional inputs of a run. A run with fewer inputs cannot see everything that an earlier run saw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from auditor.checks import ALL_CHECKS, Basis
from auditor.checks.needs import Need
from auditor.findings.basis import LOSS_CHECKS
from auditor.model.holds import FactReason


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Inputs that a run reads only with an option. Some findings and holds (bans on actions) need them.

    Args:
        entry_logs: 1 if the bookies' entry logs were read, else 0.
        answers: 1 if bookies of a live store were asked for entries, else 0.
        owner_stores: sorted identities of the stores of owners (such as topics) that were read. A store has
            the same identity in every run (`auditor.tables.owner_stores.make_store_identity`). Runs of
            earlier versions use `UNNAMED_STORE` for each store.
        gone_entries: 1 if an index lists entries in missing entry logs, else 0. A run that does not read
            entry logs cannot see that these copies are missing.
    """

    entry_logs: int = 0
    answers: int = 0
    owner_stores: tuple[str, ...] = ()
    gone_entries: int = 0

    def merge_inputs(self, other_inputs: RunInputs) -> RunInputs:
        """Return the inputs that at least one of the two runs had."""
        return RunInputs(
            max(self.entry_logs, other_inputs.entry_logs),
            max(self.answers, other_inputs.answers),
            tuple(sorted((Counter(self.owner_stores) | Counter(other_inputs.owner_stores)).elements())),
            max(self.gone_entries, other_inputs.gone_entries),
        )

    def reasons_lacking_input(self, earlier_inputs: RunInputs) -> frozenset[str]:
        """Return the ids of checks, and reasons of holds (bans), whose input only the earlier run had."""
        unseen_reasons: set[str] = set()
        if self.entry_logs < earlier_inputs.entry_logs:
            unseen_reasons |= _ENTRY_LOG_REASONS
            unseen_reasons |= {*LOSS_CHECKS} if earlier_inputs.gone_entries else set()
        if self.answers < earlier_inputs.answers:
            unseen_reasons |= {check.id for check in ALL_CHECKS if Need.BOOKIE_ANSWERS in check.all_needs}
        if self._lacks_owner_stores(earlier_inputs):
            unseen_reasons |= {
                check.id for check in ALL_CHECKS if check.rests_on.data_kind == Basis.OWNERS.data_kind
            }
            unseen_reasons.add(FactReason.UNREAD_DISK)  # the missing ledgers may be those that an owner names
        return frozenset(unseen_reasons)

    def _lacks_owner_stores(self, earlier_inputs: RunInputs) -> bool:
        """Return whether this run did not read a store of owners (e.g. topics) that the earlier run read."""
        missing_stores = Counter(earlier_inputs.owner_stores) - Counter(self.owner_stores)
        return any(missing_stores.keys() - {UNNAMED_STORE}) or len(self.owner_stores) < len(
            earlier_inputs.owner_stores
        )


UNNAMED_STORE = ""
"""Identity of each store of owners in a run of an earlier version, which only kept the number of stores."""
_ENTRY_LOG_REASONS = frozenset({"gc-would-delete-live", str(FactReason.UNINDEXED_BYTES)})
"""Reasons of holds that only entry logs show. Checks that do not run without entry logs are left out."""
