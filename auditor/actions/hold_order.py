"""Order of holds by importance."""

from collections.abc import Iterable

from auditor.model.finding import Urgency
from auditor.model.holds import FactReason, Hold

_RANK_BY_REASON = {str(reason): importance_rank for importance_rank, reason in enumerate(FactReason)}


def sort_by_importance(holds: Iterable[Hold]) -> tuple[Hold, ...]:
    """Sort holds by importance.

    Urgent holds come first, then certain holds, then holds from findings before holds from facts.
    """

    def importance(hold: Hold) -> tuple[object, ...]:
        importance_rank = _RANK_BY_REASON.get(hold.reason, -1)
        return (
            Urgency(hold.urgency).rank,
            not hold.certain,
            importance_rank,
            hold.object,
            hold.key,
            hold.reason,
        )

    return tuple(sorted(holds, key=importance))
