"""Order of holds (rules that forbid actions) by importance."""

from collections.abc import Iterable

from auditor.model.finding import Urgency
from auditor.model.holds import FactReason, Hold

_RANK_BY_REASON = {str(reason): importance_rank for importance_rank, reason in enumerate(FactReason)}


def sort_by_importance(holds: Iterable[Hold]) -> tuple[Hold, ...]:
    """Sort holds (rules that forbid actions) by importance.

    Urgent holds come first. Among equally urgent holds, certain ones come first. Among these, holds that
    follow from findings come before holds that follow from facts.
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
