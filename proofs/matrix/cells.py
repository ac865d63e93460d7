"""One cell of the matrix: its data and damage, the way to read it, and the options.

A cell can be created from its name: ``flat-v1/dump/directories/cut:index/samples=1,threads=4``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random

from allpairspy import AllPairs

NO_VALUE = "none"
"""The value for no damage or no source of bookies."""

CORPORA: Mapping[str, frozenset[str]] = {
    "interleaved-hier": frozenset({"index"}),
    "dbledger-long": frozenset({"index", "log"}),
    "flat-v1": frozenset({"index", "log"}),
    "etcd": frozenset({"index"}),
    "idle-journal": frozenset({"journal", "log"}),
    "pulsar-a": frozenset({"index", "journal", "log"}),
    "running-interleaved": frozenset({"index", "journal", "log"}),
    "running-dbledger": frozenset({"index", "journal", "log"}),
    "nothing-written": frozenset(),
    "one-row": frozenset({"index"}),
    "all-missing": frozenset(),
}
"""The corpora, and the kinds of files that their bookies have.

Two of them have running bookies. Three are the smallest clusters (`proofs.matrix.smallest`).
"""

METADATA = ("dump", "packed", "snapshot", "live")
SOURCES: Mapping[str, tuple[str, ...]] = {
    NO_VALUE: (),
    "directories": ("directories",),
    "inventory": ("inventory",),
    "collection": ("collection",),
    "collection-with-logs": ("collection-with-logs",),
    "rpc": ("rpc",),
    "directories-and-rpc": ("directories", "rpc"),
    "collection-and-rpc": ("collection", "rpc"),
    "directories-and-collection": ("directories", "collection"),
}
"""Forms of bookie sources, and the single sources of which each consists."""

KINDS = ("empty", "cut", "byte", "foreign", "missing", "swapped", "older", "unreadable", "huge", "mixed")
TARGETS = ("store", "record", "cookie", "mark", "index", "journal", "log", "collection", "run")
"""Targets of damage: the metadata file, a ledger's record, files of a bookie, of a collection, of the run."""

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "fail_on": ("error", "note", "new"),
    "fail_on_suspect": ("no", "yes"),
    "suppressions": ("no", "file"),
    "samples": ("20", "0", "1"),
    "grace": ("60", "0"),
    "scan_time": ("own", "later"),
    "index_time": ("own", "later"),
    "since": ("no", "plain"),
    "owners": ("own", "none"),
    "owner_grace": ("86400", "0"),
    "offload_listing": ("no", "file"),
    "rate_limit": ("20000", "0"),
    "in_flight": ("4", "1"),
    "batch": ("200", "1"),
    "bookie_rate_limit": ("1000", "0"),
    "bookie_in_flight": ("32", "1"),
    "witness": ("yes", "no"),
    "witness_reads": ("10000", "1"),
    "entry_logs": ("no", "yes", "deep", "all"),
    "digest_budget": ("1000", "1"),
    "bookie_conf": ("no", "file"),
    "racks": ("no", "columns", "toml", "json"),
    "rack_script": ("no", "script"),
    "placement": ("no", "rack", "region", "zone", "none", "enforced"),
    "threads": ("1", "4"),
    "parts_per_core": ("4", "1"),
}
"""Options of an audit and their values, the default first.

``entry_logs`` also stands for ``--deep`` (deep) and for digests of every entry (all). The JSON file of
``racks`` omits a bookie, and its racks have different depths.
"""

UNUSED_OPTIONS: Mapping[str, str] = {
    "resume_within": "of a run that broke off: proofs/living",
    "timeout": "the matrix's own, for servers that are there",
    "credentials": "servers that ask who it is: tests/live",
    "owners_complete": "with several stores of owners: tests/audit/test_owner_completeness",
    "deep": "a value of entry_logs", "digest_entries": "likewise", "digest_percent": "likewise",
    "checks": "they leave out the finding that a cell is about: tests/checks/test_configuration",
    "skip_checks": "likewise", "check_settings": "likewise",
    "master": "one Spark session has all cells", "driver_memory": "likewise",
}  # fmt: skip
"""Options that no cell has, and the reason."""

SILENT = frozenset(
    (
        *("fail_on", "fail_on_suspect", "suppressions", "samples", "rate_limit", "in_flight", "batch"),
        *("bookie_rate_limit", "bookie_in_flight", "threads", "parts_per_core"),
    )
)
"""Options that change no finding."""

LEAST_READING: Mapping[str, str] = {
    "owners": "none",
    "offload_listing": "no",
    "witness": "no",
    "entry_logs": "no",
    "since": "no",
    "racks": "no",
    "rack_script": "no",
}
"""Options that let an audit read more, and the value with which it reads least."""

COMMANDS = ("doctor", "scan", "collect", "dump", "compare", "ledger")
"""Commands that a cell can run on its sources besides the audit."""


@dataclass(frozen=True)
class Cell:
    """One cell. ``options`` has the options that differ from the default, sorted by name."""

    corpus: str
    metadata: str
    bookies: str
    damage: str
    options: tuple[tuple[str, str], ...] = ()
    command: str = COMMANDS[0]

    @classmethod
    def parse(cls, name: str) -> Cell:
        """Return the cell that a name describes.

        >>> Cell.parse("etcd/dump/none/none//scan").name
        'etcd/dump/none/none//scan'
        """
        corpus, metadata, bookies, damage, options, command = name.split("/")
        pairs = [option.partition("=")[::2] for option in options.split(",") if option]
        return cls(corpus, metadata, bookies, damage, tuple(sorted(pairs)), command)

    @property
    def name(self) -> str:
        options = ",".join("=".join(pair) for pair in self.options)
        return "/".join((self.corpus, self.metadata, self.bookies, self.damage, options, self.command))

    @property
    def kind(self) -> str:
        """The kind of damage, such as ``cut``."""
        return self.damage.partition(":")[0]

    @property
    def target(self) -> str:
        """The target of the damage. Empty without damage."""
        return self.damage.partition(":")[2]

    def option(self, name: str) -> str:
        return dict(self.options).get(name, OPTIONS[name][0])

    def with_options(self, **options: str) -> Cell:
        """Return the same cell with other values of some options."""
        values = {**dict(self.options), **options}
        pairs = sorted((name, value) for name, value in values.items() if value != OPTIONS[name][0])
        return replace(self, options=tuple(pairs))

    def shared_cell(self) -> Cell:
        """Return the same cell with defaults for all options that change no finding.

        Cells that are compared can then share its audit.
        """
        return replace(self.with_options(**{name: OPTIONS[name][0] for name in SILENT}), command=COMMANDS[0])

    def plain(self) -> Cell:
        """Return the same cell without damage."""
        return replace(self.shared_cell(), damage=NO_VALUE).with_options(since="no")

    def reads_less(self) -> Cell:
        """Return the same cell without the options that let an audit read more."""
        return self.shared_cell().with_options(**LEAST_READING)

    def single(self) -> list[Cell]:
        """Return one cell for each part of a combined source, if its second part is ``rpc``.

        A source with two copies of a bookie's directories has no such cells. An audit cannot tell which copy
        is the bookie's, so it reads neither.
        """
        parts = SOURCES[self.bookies]
        return [replace(self.shared_cell(), bookies=part) for part in parts] if parts[1:] == ("rpc",) else []


def makes_sense(row: Sequence[str]) -> bool:
    """Return whether the first values of a row can be combined. They are in the order of `DIMENSIONS`."""
    corpus, metadata, bookies, kind, target = (*row[:5], *[None] * 5)[:5]
    if bookies is not None and "rpc" in SOURCES[bookies] and metadata != "live":
        return False
    if target is None or kind == NO_VALUE or target == "run":
        return True
    if target == "store":
        return metadata != "live"
    if target == "record":
        return metadata == "dump" or (metadata == "live" and corpus != "etcd")
    if target == "collection":
        return "collection" in str(bookies)
    has = {"cookie", "mark", *CORPORA[str(corpus)]}
    return target in has and bookies not in (NO_VALUE, "rpc")


DIMENSIONS = (
    tuple(CORPORA),
    METADATA,
    tuple(SOURCES),
    (NO_VALUE, *KINDS),
    TARGETS,
    *OPTIONS.values(),
    COMMANDS,
)


def pairwise(seed: int, corpora: Sequence[str] = DIMENSIONS[0]) -> list[Cell]:
    """Return cells that contain every pair of values that can be combined, in an order given by the seed."""
    values = [list(dimension) for dimension in (corpora, *DIMENSIONS[1:])]
    random = Random(seed)
    rows = [list(row) for row in AllPairs(values, filter_func=makes_sense)]
    # AllPairs omits a pair if the other values that it chose for the row make no sense.
    known_pairs = {pair for row in rows for pair in _pairs_of(row)}
    for low, high in combinations(range(len(values)), 2):
        for pair in product(((low, value) for value in values[low]), ((high, v) for v in values[high])):
            if pair not in known_pairs:
                drawn = [_draw_row(values, pair, random) for _ in range(TRIES)]
                possible = [row for row in drawn if makes_sense(row)]
                if possible:
                    rows.append(max(possible, key=lambda row: len({*_pairs_of(row)} - known_pairs)))
                    known_pairs |= {*_pairs_of(rows[-1])}
    cells = [_cell(row) for row in rows]
    random.shuffle(cells)
    return list(dict.fromkeys(cells))


TRIES = 100
"""Number of random rows to draw for a pair of values. If none makes sense, the pair cannot be combined."""

_Place = tuple[int, str]
"""The number of a dimension and a value."""


def _pairs_of(row: Sequence[str]) -> Iterator[tuple[_Place, _Place]]:
    return combinations(enumerate(row), 2)


def _draw_row(values: Sequence[Sequence[str]], pair: tuple[_Place, _Place], random: Random) -> list[str]:
    row = [random.choice(choices) for choices in values]
    for index, value in pair:
        row[index] = value
    return row


def _cell(row: Sequence[str]) -> Cell:
    corpus, metadata, bookies, kind, target, *options, command = row
    damage = NO_VALUE if kind == NO_VALUE else f"{kind}:{target}"
    settings = dict(zip(OPTIONS, options, strict=True))
    return Cell(corpus, metadata, bookies, damage, (), command).with_options(**settings)
