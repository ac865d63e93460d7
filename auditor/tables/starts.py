"""starts: what each bookie's next start would say of its cookies, one row per bookie with a known place.

All of this is bounded by the number of bookies, so it is built on the driver and then becomes a table. The
configuration is inferred (`auditor.model.cookie`), the decision is the server's
(`auditor.model.start_refusal`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from auditor.model.columns import schema_of
from auditor.model.cookie import Cookie, Source, configuration
from auditor.model.start_refusal import (
    BookieDirectory,
    NoVersion,
    Refusal,
    Unreadable,
    configured_paths,
    differences,
    legacy_refusal,
)
from auditor.sources.bookies.paths import OwnedDirectory, match_directories
from auditor.tables.registry import StoreCookie

STARTS = schema_of(
    ("bookie_id", pa.string(), "a bookie whose directories were found"),
    ("source", pa.string(), "where its configuration was inferred from: versions, store or others"),
    ("agreed", pa.bool_(), "all its cookies name it and the same directories"),
    ("journal_dirs", pa.string(), "its journal directories, joined by commas"),
    ("ledger_dirs", pa.list_(pa.string()), "its ledger directories, in order"),
    ("index_dirs", pa.list_(pa.string()), "its index directories; null: the ledger ones"),
    ("error", pa.string(), "the exception that its next start would end with; null: it would start"),
    ("fault", pa.string(), "what is the matter, in a word"),
    ("reason", pa.string(), "what is the matter, in a sentence"),
    ("paths", pa.list_(pa.string()), "the configured directories at fault"),
    ("stored_id", pa.string(), "the id under which the store keeps the cookie at fault, or lacks one"),
    ("expansion_error", pa.string(), "the same with allowStorageExpansion"),
    ("expansion_fault", pa.string(), "the same with allowStorageExpansion"),
    ("expansion_reason", pa.string(), "the same with allowStorageExpansion"),
    ("expansion_paths", pa.list_(pa.string()), "the same with allowStorageExpansion"),
    (
        "store_differs",
        pa.list_(pa.string()),
        "fields in which the store's cookie differs from every VERSION of the bookie",
    ),
    ("certain", pa.bool_(), "nothing else explains what would end its start"),
    ("store_grows", pa.bool_(), "of these lists one has all of the other: allowStorageExpansion takes them"),
)


def starts(
    found: Sequence[OwnedDirectory],
    cookies: Iterable[StoreCookie],
    instance_id: str | None,
    replays: Mapping[str, Refusal] | None = None,
) -> list[dict[str, Any]]:
    """Rows of `STARTS`, by bookie; ``found`` are all directories, each with the place in which it lies.

    ``replays`` has the bookies that their cookies let start, and that could not replay their journals then.
    """
    stored = {each.bookie_id: each for each in cookies}
    places: dict[str, list[OwnedDirectory]] = {}
    for each in found:
        if each.place_id is not None:
            places.setdefault(each.place_id, []).append(each)
    rows = (
        _start(name, directories, stored.get(name), instance_id, (replays or {}).get(name))
        for name, directories in sorted(places.items())
    )
    return [row for row in rows if row is not None]


def _start(
    bookie_id: str,
    directories: Sequence[OwnedDirectory],
    stored: StoreCookie | None,
    instance_id: str | None,
    replay: Refusal | None,
) -> dict[str, Any] | None:
    versions = [each.cookie for each in directories if each.cookie is not None]
    store = stored.cookie if stored else None
    inferred = configuration(bookie_id, versions, store)
    if inferred is None:
        return None
    expected = inferred.expected(bookie_id, instance_id)
    there = _configured_directories(expected, directories)
    # A stored cookie that cannot be read stops a start too; one that is not there is another matter.
    in_store = [(bookie_id, store or Unreadable(stored.damage or "damaged"))] if stored else []
    plain = legacy_refusal(expected, in_store, there) or replay
    grown = legacy_refusal(expected, in_store, there, allow_expansion=True) or replay
    differs: tuple[str, ...] = ()
    grows = None
    if inferred.source is Source.VERSIONS and store is not None and store.bookie_id == bookie_id:
        own = [version for version in versions if version.bookie_id == bookie_id]
        # Only where no VERSION agrees with the store: if one does, it is the other disks that are odd.
        if all(differences(version, store) for version in own):
            differs = differences(expected, store)
            grows = not (
                differences(expected, store, allow_expansion=True)
                and differences(store, expected, allow_expansion=True)
            )
    return {
        "bookie_id": bookie_id,
        "source": inferred.source.value,
        "agreed": inferred.agreed,
        "journal_dirs": inferred.journal_dirs,
        "ledger_dirs": list(inferred.ledger_dirs),
        "index_dirs": list(inferred.index_dirs) if inferred.index_dirs else None,
        **_refusal(plain, ""),
        "stored_id": plain.stored_id if plain else None,
        **_refusal(grown, "expansion_"),
        "store_differs": list(differs),
        "certain": plain is None or plain.certain,
        "store_grows": grows,
    }


def _configured_directories(expected: Cookie, directories: Sequence[OwnedDirectory]) -> list[BookieDirectory]:
    """The configured directories as they are in the bookie's place; None for one that was not found."""
    paths = configured_paths(expected)
    found = match_directories([path for _, path in paths], directories).found
    return [
        BookieDirectory(path, role, _version(found[path]) if path in found else None) for role, path in paths
    ]


def _version(directory: OwnedDirectory) -> Cookie | Unreadable | NoVersion | None:
    found = directory.found
    if directory.cookie is not None:
        return directory.cookie
    if found.version_absent:
        return NoVersion(found.empty, found.old_data)
    # Unreadable by the audit is not unreadable by the bookie: only bytes that were read say so.
    return Unreadable(directory.damage or "damaged") if found.version is not None else None


def _refusal(refusal: Refusal | None, prefix: str) -> dict[str, Any]:
    return {
        f"{prefix}error": refusal.error if refusal else None,
        f"{prefix}fault": refusal.fault.value if refusal else None,
        f"{prefix}reason": refusal.reason if refusal else None,
        f"{prefix}paths": list(refusal.paths) if refusal else [],
    }
