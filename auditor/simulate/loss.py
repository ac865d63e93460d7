"""What windows lose: entries, bytes and ledgers by what is left of their copies; and whose ledgers these are.

Of Qw copies s survive: none is lost, below Qa is below ack quorum, below Qw is below write quorum. A failure
takes copies that are there; what was missing before it is not laid to it. Recovery of an open end needs, in
every window, fewer than Qa bookies that do not answer (``RRQuorumCoverageSet``). Owners are found in one pass
over the table ownership.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.model.adherence import first_of_each
from auditor.model.report_source import NOBODY
from auditor.model.simulation import OwnerLoss
from auditor.runs.owners import NAMES, has_owners, owned
from auditor.runs.reader import RunReader
from auditor.simulate.windows import (
    HELD,
    MISSING,
    NO_BOOKIE,
    UNKNOWN,
    Bools,
    Longs,
    Windows,
    any_true,
    count_true,
)


class Fate(IntEnum):
    """What becomes of a window, the worst last; OPEN_END is of ledgers that recovery could not close."""

    WHOLE = 0
    BELOW_WRITE_QUORUM = 1
    BELOW_ACK_QUORUM = 2
    LOST = 3
    OPEN_END = 4


LEDGERS, ENTRIES, BYTES = 0, 1, 2
"""Last axis of a tally. A ledger counts once, at the worst fate of its windows; at OPEN_END besides."""

VIEWS = ("promise", "promise_possible", "today", "today_possible")
"""First axis: copies as the metadata promises them and as indexes hold them; possible: and whatever is
unknown, places of bookies among it, were as bad as it can be."""


@dataclass(frozen=True)
class SilentBookies:
    """Bookies that do not answer, by number; the last element of each stands for no bookie."""

    down: Bools  # not registered: it does not answer
    down_possible: Bools


@dataclass(frozen=True)
class Blow:
    """Copies that a failure takes of some windows, (windows, widest write quorum); ``possible`` has more."""

    sure: Bools
    possible: Bools

    def take(self, rows: NDArray[np.intp]) -> Blow:
        """Of some windows."""
        return Blow(self.sure[rows], self.possible[rows])


def tally(windows: Windows, blow: Blow, group: Longs, groups: int, cluster: SilentBookies) -> Longs:
    """Sums by view, group, fate and unit: (4, groups, 5, 3); ``group`` has one element a window."""
    sums = np.zeros((len(VIEWS), groups, len(Fate), 3), np.int64)
    special = _special(windows, blow)
    fate = fates(windows, blow, cluster, VIEWS[0])
    fate[special] = Fate.WHOLE
    _add(sums[0], windows, fate, group)
    sums[1:] = sums[0]
    rows = np.flatnonzero(special)
    windows, blow, group = windows.take(rows), blow.take(rows), group[rows]
    for number, view in enumerate(VIEWS):
        _add(sums[number], windows, fates(windows, blow, cluster, view), group)
    return sums


def _special(windows: Windows, blow: Blow) -> Bools:
    """Windows of ledgers of which something is open, missing or unknown; all views of others are one."""
    odd = any_true((windows.copies != HELD) | (blow.sure != blow.possible)) | windows.open_end
    return windows.any_of_ledger(odd)[windows.ledger]


def fates(windows: Windows, blow: Blow, cluster: SilentBookies, view: str) -> NDArray[np.int8]:
    """What becomes of each window in one of `VIEWS`: a `Fate` each."""
    possible = view.endswith("possible")
    taken = blow.possible if possible else blow.sure
    if view.startswith("promise"):
        fate, asleep = _fates(windows, taken, taken), taken
    else:
        missing = windows.copies == MISSING
        gone = taken | missing | (windows.copies == UNKNOWN if possible else False)
        down = cluster.down_possible if possible else cluster.down
        fate, asleep = _fates(windows, taken & ~missing, gone), taken | down[windows.bookies]
    fate[windows.open_end] = np.where(_unrecoverable(windows, taken, asleep), Fate.OPEN_END, Fate.WHOLE)
    return fate


def _fates(windows: Windows, taken: Bools, gone: Bools) -> NDArray[np.int8]:
    """The fate of each window that a copy is taken of; the others are whole."""
    left = windows.write_quorum - count_true(gone & (windows.bookies != NO_BOOKIE))
    fate = np.select(
        [left <= 0, left < windows.ack_quorum], [Fate.LOST, Fate.BELOW_ACK_QUORUM], Fate.BELOW_WRITE_QUORUM
    )
    return np.where(any_true(taken), fate, Fate.WHOLE).astype(np.int8)


def _unrecoverable(windows: Windows, taken: Bools, asleep: Bools) -> Bools:
    """Whether the failure takes a bookie of a window that then has too few to be covered."""
    silent = count_true(asleep & (windows.bookies != NO_BOOKIE))
    found = any_true(taken) & (silent >= windows.ack_quorum)
    return found[windows.open_end]


def _add(sums: Longs, windows: Windows, fate: NDArray[np.int8], group: Longs) -> None:
    """Add windows that are not whole to (groups, fates, units)."""
    rows = np.flatnonzero(fate != Fate.WHOLE)
    fate, group, ledger = fate[rows], group[rows], windows.ledger[rows]
    np.add.at(sums[:, :, ENTRIES], (group, fate), windows.entries[rows])
    np.add.at(sums[:, :, BYTES], (group, fate), windows.bytes[rows])
    for part in (fate < Fate.OPEN_END, fate == Fate.OPEN_END):
        ledgers, groups, worst = _worst_of_ledgers(ledger[part], group[part], fate[part])
        np.add.at(sums[:, :, LEDGERS], (groups, worst), windows.times[ledgers])


def _worst_of_ledgers(
    ledger: Longs, group: Longs, fate: NDArray[np.int8]
) -> tuple[Longs, Longs, NDArray[np.int8]]:
    """Each pair of ledger and group once, with its worst fate."""
    if not len(ledger):
        return ledger, group, fate
    key = (ledger * (int(group.max()) + 1) + group) * len(Fate) + fate
    key.sort()
    pair = key // len(Fate)
    key = key[np.append(pair[1:] != pair[:-1], True)]
    pair, worst = np.divmod(key, len(Fate))
    ledgers, groups = np.divmod(pair, int(group.max()) + 1)
    return ledgers, groups, worst.astype(np.int8)


def blow_of(windows: Windows, lost: Bools, possible: Bools) -> Blow:
    """The copies on some bookies, by number; ``possible`` are those that may be lost too, and the last of
    both, which stands for no bookie, is False."""
    return Blow(lost[windows.bookies], (lost | possible)[windows.bookies])


def each_domain(windows: Windows, domain: Longs) -> tuple[Windows, Blow, Longs]:
    """The failure of every single domain, for `tally`: windows, what each loses, and by which domain.

    ``domain`` is a number by bookie: -1 where its place is not known, -2 for no bookie. A window comes once
    for each known domain that it lies in: what may lie there, and surely has no copy there, is left out.
    """
    places = domain[windows.bookies]
    rows, groups = [], []
    for seat in range(places.shape[1]):
        mine = places[:, seat]
        new = np.flatnonzero((mine >= 0) & ~any_true(places[:, :seat] == mine[:, None]))
        rows.append(new)
        groups.append(mine[new])
    row, group = np.concatenate(rows), np.concatenate(groups)
    sure = places[row] == group[:, None]
    return windows.take(row), Blow(sure, sure | (places[row] == -1)), group


def domain_sets(windows: Windows, domain: Longs, today: bool, most: int) -> tuple[Longs, Longs]:
    """Rows of windows whose entries lie in at most so many domains, and the domains: ascending, -1 filled.

    By the promise, or ``today`` without copies that are missing. Windows with a copy at an unknown place, or
    without any copy, are left out; so are open ends.
    """
    places = domain[windows.bookies].astype(np.int64)
    if today:
        places[windows.copies == MISSING] = -2
    known = ~any_true(places == -1) & ~windows.open_end
    ordered = np.sort(places, axis=1)
    new = first_of_each(ordered)
    count = count_true(new)
    rows = np.flatnonzero(known & (count > 0) & (count <= most))
    sets = np.full((len(rows), most), -1, np.int64)
    row, place = np.nonzero(new[rows])
    rank = np.cumsum(new[rows], axis=1)[row, place] - 1
    sets[row, rank] = ordered[rows][row, place]
    return rows, sets


_COLUMNS = ("ledger_id", "standing", *NAMES, "borrowed", "offload")
_SUMS = ("ledgers", "entries", "bytes", "unrecoverable", "offloaded")
_Totals = defaultdict[str, Longs]


def concerned_ledgers(windows: Windows, blow: Blow, cluster: SilentBookies) -> Longs:
    """The ledgers that surely lose an entry as indexes hold it, or are not recoverable.

    A row each: scope, id, lost, entries, bytes, unrecoverable; 0 or 1 where it says whether.
    """
    assert windows.ids is not None
    fate = fates(windows, blow, cluster, "today")
    rows = np.zeros((len(windows.times), 6), np.int64)
    rows[:, :2] = windows.ids
    gone, ledger = fate == Fate.LOST, windows.ledger
    rows[ledger[gone], 2] = 1
    np.add.at(rows[:, 3], ledger[gone], windows.entries[gone])
    np.add.at(rows[:, 4], ledger[gone], windows.bytes[gone])
    rows[ledger[fate == Fate.OPEN_END], 5] = 1
    return rows[(rows[:, 2] > 0) | (rows[:, 5] > 0)]


def owner_losses(run: RunReader, rows: Longs) -> tuple[list[OwnerLoss], list[OwnerLoss]] | None:
    """What namespaces and topics lose, the worst first; None where the run read no owners.

    What has an owner in none of an application's lists is of nobody.
    """
    if not has_owners(run):
        return None
    namespaces: _Totals = defaultdict(lambda: np.zeros(len(_SUMS), np.int64))
    topics: _Totals = defaultdict(lambda: np.zeros(len(_SUMS), np.int64))
    scope_id = rows[:, 0]
    mine = rows[scope_id == 0]  # applications know no scopes
    seen = np.zeros(len(mine), bool)
    for batch in run.batches("tables/ownership", _COLUMNS):
        for row in _by_topic(batch, mine, seen):
            names = [row[name] for name in NAMES]
            sums = [row[f"{name}_sum"] for name in _SUMS]
            topics["/".join(name for name in names if name)] += sums
            namespaces["/".join(names[:2]) if all(names[:2]) else NOBODY] += sums
    nobodys = np.append(mine[~seen, 2:].sum(axis=0) + rows[scope_id != 0, 2:].sum(axis=0), 0)
    if nobodys.any():
        namespaces[NOBODY] += nobodys
        topics[NOBODY] += nobodys
    return _worst_first(namespaces), _worst_first(topics)


def _by_topic(batch: pa.RecordBatch, rows: Longs, seen: Bools) -> list[dict[str, Any]]:
    """Sums of those of a batch's ledgers that are concerned, by topic; ``seen`` learns which they were."""
    some = batch.filter(pc.and_(owned(batch), batch["ledger_id"].is_valid()))
    ids = some["ledger_id"].to_numpy(zero_copy_only=False)
    if not len(rows) or not len(ids):
        return []
    place = np.minimum(np.searchsorted(rows[:, 1], ids), len(rows) - 1)
    hit = rows[place, 1] == ids
    seen[place[hit]] = True
    some, place = some.filter(pa.array(hit)), place[hit]
    offloaded = pc.equal(some["offload"], "complete").fill_null(False).cast("int64")
    sums = [*(pa.array(column) for column in rows[place, 2:].T), offloaded]
    table = pa.table([*(some[name] for name in NAMES), *sums], [*NAMES, *_SUMS])
    found: list[dict[str, Any]] = (
        table.group_by([*NAMES]).aggregate([(name, "sum") for name in _SUMS]).to_pylist()
    )
    return found


def _worst_first(totals: dict[str, Longs]) -> list[OwnerLoss]:
    found = [OwnerLoss(name, *map(int, sums)) for name, sums in totals.items()]
    return sorted(found, key=lambda each: (-each.bytes, -each.entries, -each.unrecoverable, each.name))
