"""Before a first run: is everything there that an audit needs, and what will it see and not see?

It reads little (what is bounded by the number of bookies, and some hundreds of znodes to count ledgers),
keeps to the audit's own rate limit, and writes nothing anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from auditor.doctor.blind_spots import name_blind_spots
from auditor.doctor.bookies import look_at_bookies
from auditor.doctor.machine import machine
from auditor.doctor.out import look_at_out
from auditor.doctor.store import read_metadata
from auditor.model.doctor import Diagnosis, Line, State
from auditor.model.exit_code import NOT_COVERED
from auditor.model.options import AuditOptions

__all__ = ["examine"]


def examine(
    metadata: str | None = None,
    bookies: Sequence[str] = (),
    out: str | None = None,
    options: AuditOptions | None = None,
    start_spark: bool = False,
) -> Diagnosis:
    """Look at this machine and at the sources of an audit that is not made yet.

    The arguments are those of `auditor.Audit`, each of which may be left out; ``start_spark`` starts a
    session and one Python worker. What is wrong is a line of the result.

    Raises:
        UsageError: a URI, a source or a credentials file that cannot be meant.
    """
    options = options or AuditOptions()
    lines = list(machine(options, start_spark))
    store = read_metadata(metadata, options) if metadata is not None else None
    lines += store.lines if store else [_not_named("store", "access", "--metadata URI")]
    disks = look_at_bookies(bookies, store, options) if bookies else None
    lines += disks.lines if disks else [_without_bookies(named=metadata is not None)]
    lines += look_at_out(out, metadata) if out is not None else [_not_named("out", "place", "--out RUN")]
    return Diagnosis(tuple(lines), tuple(name_blind_spots(store, disks, options.witness == "yes")))


def _without_bookies(named: bool) -> Line:
    """An audit needs a store and may do without bookies; then it decides nothing of their copies."""
    if not named:
        return _not_named("bookies", "coverage", "--bookies PATH")
    said = "no --bookies PATH was given: such an audit looks at the metadata only"
    return Line("bookies", "coverage", State.NOT_ASKED, said, "say where the indexes are", NOT_COVERED)


def _not_named(topic: str, name: str, option: str) -> Line:
    return Line(topic, name, State.NOT_ASKED, f"no {option} was given")
