"""How full the disks of a run's bookies are, when they will be full, and what frees space, the most first.

What frees space comes from findings of entry logs and classes of bytes, which are added up batch by batch:
memory follows the groups that there are, not the rows.

The forecast comes from the free bytes that the runs beside a run have seen. Nothing is said unless three runs
or more, an hour apart at least, agree: between each two of them the disk filled, and no two of these rates
differ by more than a factor of `AGREE`. The newest three must agree; how many before them do makes the
forecast surer. A disk whose size or number changed in between begins anew.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.model.amounts import plural
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence
from auditor.model.space import DISK_BYTES, FULL, NO_BOOKIE, DiskTotal, FileSystem, FillForecast, SpaceStep
from auditor.model.states import SpaceClass
from auditor.runs.owners import UNOWNED
from auditor.runs.reader import RunReader
from auditor.runs.siblings import sibling_runs

MERGED_AT = 500_000
"""So many rows of partial sums are kept at least before they are merged."""


class GroupedBytes:
    """Sums of the column ``bytes`` by the columns ``keys``.

    >>> import pyarrow as pa
    >>> sums = GroupedBytes(["name"])
    >>> sums.add(pa.table({"name": ["a", "b", "a"], "bytes": [1, 2, 3]}))
    >>> sorted(sums.table().to_pydict().items())
    [('bytes', [4, 2]), ('name', ['a', 'b'])]
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._limit = MERGED_AT

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows that have the keys and ``bytes``."""
        part = self._sum(pa.table(rows))
        self._parts.append(part)
        self._rows += part.num_rows
        if self._rows > self._limit:
            merged = self.table()
            self._parts, self._rows = [merged], merged.num_rows
            self._limit = max(MERGED_AT, 2 * merged.num_rows)

    def table(self) -> pa.Table:
        """One row a group, with ``bytes``; groups in the order in which they came."""
        if not self._parts:
            return pa.table({name: [] for name in (*self._keys, "bytes")})
        return self._sum(pa.concat_tables(self._parts))

    def _sum(self, rows: pa.Table) -> pa.Table:
        # One thread: the order of the groups is that of the rows.
        grouped = rows.group_by(self._keys, use_threads=False).aggregate([("bytes", "sum")])
        return grouped.rename_columns({"bytes_sum": "bytes"})


class LeakedBytes(NamedTuple):
    """The ledgers of one bookie that belong to nobody: how many, their bytes, and of how many it is sure."""

    ledgers: int
    bytes: int
    confirmed: int


def leaked_bytes(run: RunReader) -> dict[str, LeakedBytes]:
    """By bookie; of ``ledger-unowned`` alone, so nothing where no application's owners were read.

    What is held is a row a leak and bookie.

    Raises:
        RunError: a table of the run is broken.
    """
    leaks = _leaks(run)
    if not leaks.num_rows:
        return {}
    ids = leaks["ledger_id"].combine_chunks()
    sums = GroupedBytes(["bookie_id", *LEDGER])
    named = ds.field("bookie_id").is_valid() & ds.field("ledger_id").is_valid()
    for batch in run.batches("tables/space", ["bookie_id", *LEDGER, "bytes"], named):
        some = batch.filter(pc.is_in(batch["ledger_id"], value_set=ids))
        if len(some):
            sums.add(some)
    held = sums.table()
    if not held.num_rows:
        return {}
    whose = held.join(leaks, [*LEDGER], join_type="inner")
    sure = pc.cast(pc.equal(whose["confidence"], str(Confidence.CONFIRMED)), pa.int64())
    rows = whose.append_column("sure", sure).group_by("bookie_id")
    totals = rows.aggregate([("bytes", "sum"), ("bytes", "count"), ("sure", "sum")]).to_pylist()
    return {
        row["bookie_id"]: LeakedBytes(row["bytes_count"], row["bytes_sum"], row["sure_sum"]) for row in totals
    }


def _leaks(run: RunReader) -> pa.Table:
    """Ledgers that belong to nobody, once each."""
    columns = [*LEDGER, "confidence"]
    batches = list(run.batches("findings", columns, ds.field("id") == UNOWNED))
    schema = pa.schema([*((name, pa.int64()) for name in LEDGER), ("confidence", pa.string())])
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


HTTP_PORT = 8080
"""httpServerPort, where nobody sets it."""

RECLAIMABLE, PINNED = "entry-log-reclaimable", "entry-log-pinned"
SUSPECTS_METADATA = frozenset({"metadata-suspect", "alias-gc-danger", "gc-would-delete-live"})
"""Findings beside which nobody should start a collection."""

_DELETES = (
    "danger; what it deletes does not come back. See first that the run has no metadata-suspect, "
    "alias-gc-danger or gc-would-delete-live"
)
_UNOWNED = (
    "none; it reads the run. To delete a ledger is danger: nothing brings it back, and whoever still names "
    "it fails to open it"
)
_REWRITES = "load; it collects first, then rewrites logs, and needs free space for what remains of them"


def space_steps(run: RunReader, classes: Mapping[str, Mapping[str, int]]) -> tuple[SpaceStep, ...]:
    """The steps of all bookies, those of one that free most first; ``classes`` are each bookie's bytes.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    hosts = _hosts(run)
    warned = {
        row["bookie_id"]: row["id"]
        for row in _findings(run, SUSPECTS_METADATA)
        if row["bookie_id"] is not None
    }
    found: list[SpaceStep] = []
    for row in _findings(run, {RECLAIMABLE, PINNED}):
        bookie = row["bookie_id"]
        url = gc_url(bookie, hosts.get(bookie))
        doubt = "the finding is suspect" if row["confidence"] != Confidence.CONFIRMED else None
        if bookie in warned:
            doubt = f"{warned[bookie]} is found on this bookie: start nothing before that is clear"
        found += _of_finding(bookie, row["id"], json.loads(row["evidence"]), url, doubt)
    found += _over_replicated(classes, warned)
    found += _leaked(run)
    return tuple(sorted(found, key=lambda step: (step.bookie_id, -step.bytes, step.what)))


def gc_url(bookie_id: str, endpoint: tuple[str, int] | None = None) -> str:
    """Where a bookie's HTTP server takes a collection; ``endpoint``: its host and HTTP port, where known.

    >>> gc_url("bk1.example:3181"), gc_url("custom-id")
    ('http://bk1.example:8080/api/v1/bookie/gc', 'http://HOST:8080/api/v1/bookie/gc')
    """
    host, _, port = bookie_id.rpartition(":")
    if endpoint is not None:
        host, http = endpoint
    else:
        host, http = (host, HTTP_PORT) if host and port.isdigit() else ("HOST", HTTP_PORT)
    return f"http://{host}:{http}/api/v1/bookie/gc"


def _of_finding(
    bookie_id: str, check: str, evidence: Mapping[str, Any], url: str, doubt: str | None
) -> Iterator[SpaceStep]:
    if check == RECLAIMABLE:
        what = f"collection deletes {evidence['logs']:,} entry logs of which no ledger is left"
        yield SpaceStep(
            bookie_id, evidence["bytes"], what, f"curl -X PUT {shlex.quote(url)}", _DELETES, doubt
        )
        return
    minor, major = (round(100 * evidence[f"{name}_threshold"]) for name in ("minor", "major"))
    some, most = f"less than {minor} % is needed", f"{minor} to {major} % is needed"
    stranded = (
        f"no compaction rewrites entry logs of which {major} % or more is needed; a higher "
        "majorCompactionThreshold in the bookie's configuration does, from its next start on"
    )
    higher = "load; the higher the threshold, the more is rewritten for each byte that comes free"
    rewrites = "compaction rewrites entry logs of which"
    for name, what, command, risk in (
        ("minor", f"minor {rewrites} {some}", _compaction(url, major=False), _REWRITES),
        ("major", f"major {rewrites} {most}", _compaction(url, major=True), _REWRITES),
        ("stranded", stranded, None, higher),
    ):
        if evidence[f"{name}_bytes"]:
            yield SpaceStep(bookie_id, evidence[f"{name}_bytes"], what, command, risk, doubt)


def _compaction(url: str, major: bool) -> str:
    # Servers before 4.17 fail where one of the two is not said.
    body = json.dumps({"forceMajor": major, "forceMinor": True})
    return f"curl -X PUT -d {shlex.quote(body)} {shlex.quote(url)}"


def _over_replicated(
    classes: Mapping[str, Mapping[str, int]], warned: Mapping[str, str]
) -> Iterator[SpaceStep]:
    for bookie, sizes in classes.items():
        if (size := sizes.get(SpaceClass.OVER_REPLICATED, 0)) and bookie != NO_BOOKIE:
            what = (
                "ledgers that name the bookie in no ensemble go by themselves after a day of its uptime "
                "(gcOverreplicatedLedgerWaitTime); collection and compaction free them then"
            )
            doubt = f"{warned[bookie]} is found on this bookie" if bookie in warned else None
            yield SpaceStep(bookie, size, what, None, _DELETES, doubt)


def _leaked(run: RunReader) -> Iterator[SpaceStep]:
    """Ledgers that belong to nobody: what deleting them gives back, once compaction has run."""
    command = f"bkaudit report {shlex.quote(run.path)} --leaks"
    for bookie, leaked in leaked_bytes(run).items():
        what = (
            f"{plural(leaked.ledgers, 'ledger belongs', 'ledgers belong')} to nobody (ledger-unowned): "
            "see the list; what `bookkeeper shell deleteledger -l ID` deletes, collection and compaction free"
        )
        open_ones = leaked.ledgers - leaked.confirmed
        doubt = f"{open_ones:,} of them only suspected: delete none of these" if open_ones else None
        yield SpaceStep(bookie, leaked.bytes, what, command, _UNOWNED, doubt)


def _findings(run: RunReader, ids: set[str] | frozenset[str]) -> Iterator[dict[str, Any]]:
    columns = ["id", "bookie_id", "confidence", "evidence"]
    for batch in run.batches("findings", columns, ds.field("id").isin(sorted(ids))):
        yield from batch.to_pylist()


def _hosts(run: RunReader) -> dict[str, tuple[str, int]]:
    """Host and HTTP port of the bookies that registered both."""
    rows = run.table("registrations", ["bookie_id", "endpoints", "host", "used"]).to_pylist()
    return {
        row["bookie_id"]: (row["host"], end["port"])
        for row in rows
        if row["used"] and row["host"]
        for end in row["endpoints"] or ()
        if end["protocol"] == "http" and end["port"]
    }


_FILE_SYSTEM = ("device", "capacity_bytes", "free_bytes", "seen")


def disk_totals(run: RunReader) -> tuple[DiskTotal, ...]:
    """One total a bookie, by id; none where entry logs were not read. A row per directory is in memory.

    Raises:
        RunError: the table disks is broken.
    """
    if "disks" not in run.table_names():
        return ()
    bytes: dict[str, Counter[str]] = {}
    unread: Counter[str] = Counter()
    systems: dict[str, dict[int, FileSystem]] = {}
    columns = ["bookie_id", *(kind.column for kind in DISK_BYTES), *_FILE_SYSTEM, "reason"]
    for batch in run.batches("tables/disks", columns):
        for row in batch.to_pylist():
            name = row["bookie_id"] if row["bookie_id"] is not None else NO_BOOKIE
            counts = bytes.setdefault(name, Counter())
            counts.update({kind.name: row[kind.column] or 0 for kind in DISK_BYTES})
            unread[name] += row["reason"] is not None
            if row["capacity_bytes"] is not None:
                systems.setdefault(name, {})[row["device"]] = FileSystem(
                    *(row[each] for each in _FILE_SYSTEM)
                )
    return tuple(
        DiskTotal(
            name,
            **{kind.name: bytes[name][kind.name] for kind in DISK_BYTES},
            file_systems=tuple(sorted(systems.get(name, {}).values(), key=lambda each: -each.used)),
            unread=unread[name],
        )
        for name in sorted(bytes)
    )


LEAST_RUNS = 3
MOST_RUNS = 10
"""So many runs are looked at, the newest."""

APART_MS = 3_600_000
AGREE = 2.0
_DAY_MS = 86_400_000


def fill_forecasts(run: RunReader, disks: Sequence[DiskTotal]) -> tuple[FillForecast, ...]:
    """One a bookie of which runs agree, the first to be full first; ``disks`` are those of the run.

    Raises:
        RunError: the directory of runs cannot be listed, or a table disks is broken.
    """
    series = {(total.name, each.device): [each] for total in disks for each in total.file_systems}
    for totals in islice(_runs_before(run), MOST_RUNS - 1) if series else ():
        for total in totals:
            for each in total.file_systems:
                if (seen := series.get((total.name, each.device))) is not None:
                    seen.append(each)  # what is not there any more has no series
    soonest: dict[str, FillForecast] = {}
    for (name, _), seen in series.items():
        found = forecast(name, seen)
        if found is not None and (name not in soonest or found.days < soonest[name].days):
            soonest[name] = found
    return tuple(sorted(soonest.values(), key=lambda each: (each.days, each.name)))


def forecast(name: str, seen: Sequence[FileSystem]) -> FillForecast | None:
    """When one file system is full, as it was ``seen``, the newest first; None where runs do not agree.

    >>> day, size = 86_400_000, 1000
    >>> falling = [FileSystem(1, size, free, when * day) for when, free in ((3, 200), (2, 300), (1, 400))]
    >>> forecast("bk1", falling)
    FillForecast(name='bk1', days=1.5, rate=100.0, runs=3)
    >>> forecast("bk1", falling[:2]) is None
    True
    """
    points = _apart(seen)
    rates: list[float] = []
    for newer, older in pairwise(points):
        rate = (older.free - newer.free) / (newer.seen - older.seen) * _DAY_MS
        if rate <= 0 or newer.capacity != older.capacity or max([*rates, rate]) > AGREE * min([*rates, rate]):
            break
        rates.append(rate)
    runs = len(rates) + 1
    if runs < LEAST_RUNS:
        return None
    first, last = points[0], points[runs - 1]
    rate = (last.free - first.free) / (first.seen - last.seen) * _DAY_MS
    left = first.free - round((1 - FULL) * first.capacity)
    return FillForecast(name, max(left / rate, 0.0), rate, runs)


def _apart(seen: Sequence[FileSystem]) -> list[FileSystem]:
    """Those that are an hour before the one that was taken last."""
    points: list[FileSystem] = []
    for each in seen:
        if not points or points[-1].seen - each.seen >= APART_MS:
            points.append(each)
    return points


def _runs_before(run: RunReader) -> Iterator[tuple[DiskTotal, ...]]:
    """What the runs of the cluster before this one saw of disks, the newest first."""
    beside = sibling_runs(run.path, run.report.cluster)
    finished = run.report.run.finished
    for each in reversed([each for each in beside if each.finished < finished]):
        if totals := disk_totals(RunReader(each.path)):
            yield totals
