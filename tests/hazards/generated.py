"""Generated clusters with one to three faults each, many of them in one store.

Each group has its own bookies and ledgers, so that one audit covers as many clusters as there are groups.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.corpora.cluster import Cluster, cookie_bytes

OTHER_INSTANCE = "99999999-8888-7777-6666-555555555555"
BOOKIES = 4
LEDGERS = 6
LAST_ENTRY = 9


@dataclass
class Group:
    """One cluster of a store: how its bookies and ledgers are written. Faults change its fields."""

    number: int
    choice: random.Random
    bookies: list[str] = field(default_factory=list)
    ledgers: list[int] = field(default_factory=list)
    ensembles: dict[int, list[str]] = field(default_factory=dict)
    quorums: dict[int, tuple[int, int]] = field(default_factory=dict)
    unregistered: set[str] = field(default_factory=set)
    without_disk: set[str] = field(default_factory=set)
    without_cookie: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    without_version: set[str] = field(default_factory=set)
    without: dict[int, dict[str, set[int]]] = field(default_factory=dict)
    extra: dict[int, dict[str, set[int]]] = field(default_factory=dict)
    without_metadata: set[int] = field(default_factory=set)
    damaged: set[tuple[int, str]] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    marked: dict[int, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bookies = [f"g{self.number}b{place}.example:3181" for place in range(BOOKIES)]
        self.ledgers = [1 + self.number * 100 + place for place in range(LEDGERS)]
        for ledger in self.ledgers:
            size = self.choice.choice((2, 3))
            self.ensembles[ledger] = self.choice.sample(self.bookies, size)
            write = self.choice.randint(2, size)
            self.quorums[ledger] = (write, self.choice.randint(1, write))

    def random_bookie(self) -> str:
        return self.choice.choice(self.bookies)

    def random_ledger(self) -> int:
        return self.choice.choice(self.ledgers)

    def drop(self, ledger: int, bookies: Iterable[str], entries: Iterable[int]) -> None:
        for bookie in bookies:
            self.without.setdefault(ledger, {}).setdefault(bookie, set()).update(entries)

    def write(self, cluster: Cluster) -> None:
        for bookie in self.bookies:
            name = bookie.replace(":", "_")
            version = cookie_bytes(bookie, name, cluster.ledger_dirs, OTHER_INSTANCE)
            directories = ("journal", *cluster.ledger_dirs)
            cluster.bookie(
                bookie,
                registered=None if bookie in self.unregistered else "writable",
                cookie=None if bookie in self.without_cookie else b"",
                on_disk=dict.fromkeys(directories, version) if bookie in self.foreign else None,
                disk=bookie not in self.without_disk,
            )
            if bookie in self.without_version:
                cluster.files.pop(f"{name}/{cluster.ledger_dirs[0]}/current/VERSION", None)
        for ledger in self.ledgers:
            self._write_ledger(cluster, ledger)

    def _write_ledger(self, cluster: Cluster, ledger: int) -> None:
        is_open = ledger in self.open
        cluster.ledger(
            ledger,
            {0: self.ensembles[ledger]},
            self.quorums[ledger],
            None if is_open else LAST_ENTRY,
            state="OPEN" if is_open else "CLOSED",
            written=5 if is_open else None,
            without=self.without.get(ledger),
            extra=self.extra.get(ledger),
        )
        for damaged, bookie in self.damaged:
            if damaged == ledger and (ledger, bookie) in cluster.copies:
                cluster.index(ledger, bookie, b"JUNK" + bytes(1020))
        if ledger in self.marked:
            cluster.mark(ledger, self.marked[ledger])
        if ledger in self.without_metadata:
            path = next(path for path, id in cluster.ledgers.items() if id == ledger)
            del cluster.ledgers[path], cluster.znodes[path]


def bookie_down(group: Group) -> None:
    group.unregistered.add(group.random_bookie())


def bookie_not_given(group: Group) -> None:
    group.without_disk.add(group.random_bookie())


def bookie_gone(group: Group) -> None:
    bookie = group.random_bookie()
    group.unregistered.add(bookie)
    group.without_disk.add(bookie)
    group.without_cookie.add(bookie)


def cookie_gone(group: Group) -> None:
    group.without_cookie.add(group.random_bookie())


def disks_of_another_cluster(group: Group) -> None:
    group.foreign.add(group.random_bookie())


def disk_not_mounted(group: Group) -> None:
    group.without_version.add(group.random_bookie())


def copy_lacks_entries(group: Group) -> None:
    ledger = group.random_ledger()
    group.drop(ledger, [group.choice.choice(group.ensembles[ledger])], range(3, 7))


def one_copy_left(group: Group) -> None:
    ledger = group.random_ledger()
    group.drop(ledger, group.ensembles[ledger][1:], [4])


def entry_lost(group: Group) -> None:
    ledger = group.random_ledger()
    group.drop(ledger, group.ensembles[ledger], [4])


def last_copy_elsewhere(group: Group) -> None:
    ledger = group.random_ledger()
    group.drop(ledger, group.ensembles[ledger], range(LAST_ENTRY + 1))
    outsiders = [bookie for bookie in group.bookies if bookie not in group.ensembles[ledger]]
    group.extra.setdefault(ledger, {})[group.choice.choice(outsiders)] = {*range(LAST_ENTRY + 1)}


def metadata_gone(group: Group) -> None:
    group.without_metadata.update(group.choice.sample(group.ledgers, group.choice.choice((1, 3, LEDGERS))))


def entries_past_end(group: Group) -> None:
    ledger = group.random_ledger()
    entries = {LAST_ENTRY + 1, LAST_ENTRY + 2}
    for bookie in group.ensembles[ledger]:
        group.extra.setdefault(ledger, {})[bookie] = entries


def index_damaged(group: Group) -> None:
    ledger = group.random_ledger()
    group.damaged.add((ledger, group.choice.choice(group.ensembles[ledger])))


def ledger_open(group: Group) -> None:
    group.open.add(group.random_ledger())


def bookie_empty(group: Group) -> None:
    bookie = group.random_bookie()
    for ledger in group.ledgers:
        group.drop(ledger, [bookie], range(LAST_ENTRY + 1))


def members_down(group: Group) -> None:
    group.unregistered.update(group.ensembles[group.random_ledger()])


def marked_for_replication(group: Group) -> None:
    ledger = group.random_ledger()
    group.marked[ledger] = group.ensembles[ledger][0]


FAULTS: tuple[Callable[[Group], None], ...] = (
    bookie_down, bookie_not_given, bookie_gone, cookie_gone, disks_of_another_cluster, disk_not_mounted,
    copy_lacks_entries, one_copy_left, entry_lost, last_copy_elsewhere, metadata_gone, entries_past_end,
    index_damaged, ledger_open, bookie_empty, members_down, marked_for_replication,
)  # fmt: skip


def generated_store(seed: int, groups: int) -> tuple[Cluster, list[Group]]:
    """Return a store of ``groups`` clusters with one to three faults each, and the groups themselves."""
    choice = random.Random(seed)
    cluster = Cluster()
    all_groups = []
    for number in range(groups):
        group = Group(number, choice)
        for fault in choice.sample(FAULTS, choice.randint(1, 3)):
            fault(group)
            group.faults.append(fault.__name__)
        group.write(cluster)
        all_groups.append(group)
    return cluster, all_groups


def hold_by_records(cluster: Cluster, number: int) -> dict[int, str]:
    """Add two clusters from ``number`` on; return each ledger that causes a hold, and the held bookie.

    The records alone show why the bookie is held. One ledger has its last copy outside its ensembles.
    The other is open, and a member has no copy of it.
    """
    elsewhere, opened = Group(number, random.Random(number)), Group(number + 1, random.Random(number))
    last_copy_elsewhere(elsewhere)
    ledger = opened.ledgers[0]
    opened.open.add(ledger)
    member = opened.ensembles[ledger][0]
    for ledger_id in opened.ledgers:
        opened.drop(ledger_id, [member], range(LAST_ENTRY + 1))
    for group in (elsewhere, opened):
        group.write(cluster)
    [copied] = elsewhere.extra
    return {copied: next(iter(elsewhere.extra[copied])), ledger: member}


def make_unreadable(cluster: Cluster, group: Group) -> str:
    """Make a part of a written group unreadable, which repairs nothing, and return a text that names it."""
    bookie = group.random_bookie()
    ledger = group.choice.choice([*{*group.ledgers} - group.without_metadata] or group.ledgers)
    members = sorted(name for id, name in cluster.copies if id == ledger)
    spot = group.choice.choice(("disk", "index", "record", "cookie"))
    if spot == "disk":
        place = f"{bookie.replace(':', '_')}/"
        cluster.files = {path: data for path, data in cluster.files.items() if not path.startswith(place)}
        cluster.copies = {key: entries for key, entries in cluster.copies.items() if key[1] != bookie}
    elif spot == "index" and members:
        cluster.index(ledger, group.choice.choice(members), b"JUNK" + bytes(1020))
    elif spot == "record" and ledger not in group.without_metadata:
        cluster.record(ledger, b"JUNK")
    elif spot == "cookie" and bookie not in group.without_cookie:
        cluster.node(f"/ledgers/cookies/{bookie}", b"JUNK")
    return f"{spot} {bookie} {ledger}"
