"""Faults of bookie identity: cookies, disks and registrations. Each bookie is named after its fault."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from proofs.oracle.plants import Plants
from tests.clusters.store import ROOT, Store
from tests.servers.bookies.driver import Bookies

STORAGE = "InterleavedLedgerStorage"
LAST = 9
STRIPED = range(100, 120), range(200, 206)
"""Ledgers of the bookies with exchanged disks, and of the renamed bookie.

There are enough of them for the audit to confirm the fault.
"""

NAMES = (
    *(
        "cookieless",
        "miscookied",
        "garbled",
        "swapped1",
        "swapped2",
        "exchanged1",
        "exchanged2",
        "old",
        "new",
    ),
    *("foreign", "bare", "odd", "moved", "cloned", "clone", "both", "persistent", "mute", "twin1", "twin2"),
    "healthy",
)
DRIFTED = "127.0.0.9:3181"
RETIRED = "bk-retired.example"


class ManyBookies(Bookies):
    MEMORY = ("-Xmx1g", "-XX:MaxDirectMemorySize=1g")


def id_of(name: str) -> str:
    return f"bk-{name}.example"


IDS = (*map(id_of, NAMES), DRIFTED)


def plant(cluster: Bookies, store: Store, plants: Plants) -> None:
    """Make all faults of this module."""
    healthy = id_of("healthy")
    for number, name in enumerate(NAMES[:-1]):
        if not name.startswith(("new", "clone", "exchanged")):
            cluster.write(1 + number, [id_of(name), healthy], 2, 1, LAST + 1)
    for ledgers, names in zip(STRIPED, (("exchanged1", "exchanged2"), ("old", "both")), strict=True):
        for ledger in ledgers:
            cluster.write(ledger, [*map(id_of, names), healthy], 2, 1, LAST + 1)
    cluster.flush()
    _cookies(cluster, store, plants)
    _disks(cluster, plants)
    _registrations(cluster, store, plants)


def _cookies(cluster: Bookies, store: Store, plants: Plants) -> None:
    def planted(check: str, deed: str, name: str) -> None:
        plants.plant(check, deed, None, id_of(name))

    healthy, _ = store.client.get(store.cookie(id_of("healthy")))
    store.client.create(store.cookie(RETIRED), healthy.replace(id_of("healthy").encode(), RETIRED.encode()))
    plants.plant("cookie-unused", "set in the store: a cookie of a retired bookie", None, RETIRED)
    store.delete(store.cookie(id_of("cookieless")))
    planted("cookie-missing", "its cookie deleted from the store", "cookieless")
    store.put(store.cookie(id_of("miscookied")), healthy)
    planted("cookie-key-mismatch", "set in the store: another's cookie", "miscookied")
    store.put(store.cookie(id_of("garbled")), b"\x00not a cookie")
    planted("cookie-unreadable", "set in the store: other bytes", "garbled")
    text, _ = store.client.get(store.cookie(id_of("moved")))
    store.put(store.cookie(id_of("moved")), text.replace(b"ledgers1", b"ledgers9"))
    planted("dirset-mismatch", "set in the store: a cookie of other directories", "moved")
    _edit(_version(cluster, "odd"), lambda text: text.replace("ledgers1", "ledgers9"))
    planted("disk-dirs-disagree", "an edited VERSION: other directories", "odd")
    _edit(_version(cluster, "foreign"), _foreign)
    planted("instance-mismatch", "an edited VERSION: another cluster's", "foreign")
    _version(cluster, "bare").unlink()
    planted("disk-version-missing", "rm of VERSION", "bare")
    for name in ("cookieless", "miscookied", "garbled", "moved", "odd", "foreign", "bare"):
        plants.follows("start-refused", bookies=(id_of(name),))


def _disks(cluster: Bookies, plants: Plants) -> None:
    swapped, exchanged = ("swapped1", "swapped2"), ("exchanged1", "exchanged2")
    for name in (*swapped, *exchanged):
        cluster.stop(id_of(name))
    _exchange(*(_version(cluster, name).parent for name in swapped))
    for directory in ("ledgers0", "ledgers1"):
        first_dir, second_dir = (cluster.place(id_of(name)) / directory / "current" for name in exchanged)
        _exchange(first_dir, second_dir)
        _exchange(first_dir / "VERSION", second_dir / "VERSION")  # each keeps the cookie of its own bookie
    plants.follows("below-write-quorum", ledgers=STRIPED[0])
    plants.follows("surplus-entries", bookies=map(id_of, exchanged))
    # A bookie's journal lacks the position in the other bookie's lastMark.
    plants.follows("start-refused", bookies=map(id_of, exchanged))
    for name in swapped:
        plants.plant("disk-id-mismatch", "directories of two bookies exchanged by mv", None, id_of(name))
        plants.plant("start-refused", "directories of two bookies exchanged by mv", None, id_of(name))
    # The second bookie now has an older lastMark. It replays its own journal, so no entry is missing.
    deed = "directories of two bookies exchanged by mv, but for VERSION"
    plants.plant("disk-content-mismatch", deed, None, id_of(exchanged[0]))

    old, new = cluster.place(id_of("old")), cluster.place(id_of("new"))
    for name in ("old", "new"):
        cluster.stop(id_of(name))
    for version in sorted(new.glob("*/current/VERSION")):
        moved = old / version.relative_to(new)
        moved.write_bytes(version.read_bytes())
    shutil.rmtree(new)
    old.rename(new)
    cluster.start(id_of("new"))
    plants.plant("bookie-alias", "a bookie started with another bookieId", None, id_of("old"))
    plants.plant("alias-gc-danger", "a bookie started with another bookieId", None, id_of("new"))
    own = 1 + NAMES.index("old")
    plants.follows("over-replicated-ledger", ledgers=(own, *STRIPED[1]), bookies=(id_of("new"),))

    target = _version(cluster, "clone").parents[1]
    shutil.rmtree(target)
    shutil.copytree(_version(cluster, "cloned").parents[1], target)
    plants.plant("disk-shared", "a directory copied to another bookie's place", None, id_of("cloned"))
    plants.follows("disk-id-mismatch", "start-refused", bookies=(id_of("clone"),))
    down = map(id_of, (*swapped, *exchanged, "old", "persistent"))
    plants.follows("bookie-down", "on-unregistered-bookie", "mark-missing", bookies=down)
    plants.follows("bookie-unread", bookies=map(id_of, ("bare", "clone", "odd", "old")))


def _registrations(cluster: Bookies, store: Store, plants: Plants) -> None:
    def znode_path(name: str, mode: str = "") -> str:
        return f"{ROOT}/available/{mode}{id_of(name)}"

    value, _ = store.client.get(znode_path("both"))
    store.client.ensure_path(f"{ROOT}/available/readonly")
    store.client.create(znode_path("both", "readonly/"), value, ephemeral=True)
    plants.plant(
        "registered-twice", "set in the store: a second registration, ephemeral", None, id_of("both")
    )
    own, _ = store.client.get(znode_path("persistent"))
    cluster.stop(id_of("persistent"))
    store.client.create(znode_path("persistent"), own)
    deed = "set in the store: a registration without a session"
    plants.plant("registration-not-ephemeral", deed, None, id_of("persistent"))
    store.put(znode_path("mute"), b"")
    plants.plant("endpoint-missing", "set in the store: an empty registration", None, id_of("mute"))
    store.put(znode_path("twin2"), store.client.get(znode_path("twin1"))[0])
    plants.plant("endpoint-duplicate", "set in the store: another's registration", None, id_of("twin1"))
    plants.plant("endpoint-drift", "a bookie started with bookieId of another address", None, DRIFTED)


def _version(cluster: Bookies, name: str) -> Path:
    return cluster.place(id_of(name)) / "ledgers1" / "current" / "VERSION"


def _edit(path: Path, change: Callable[[str], str]) -> None:
    text = path.read_text()
    assert change(text) != text
    path.write_text(change(text))


def _foreign(version: str) -> str:
    lines = version.splitlines(keepends=True)
    return "".join(
        'instanceId: "11111111-2222-3333-4444-555555555555"\n' if line.startswith("instanceId") else line
        for line in lines
    )


def _exchange(first: Path, second: Path) -> None:
    between = first.with_name("between")
    first.rename(between)
    second.rename(first)
    between.rename(second)
