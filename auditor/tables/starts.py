"""starts: the result of the cookie check at the next start of each bookie whose directories are known.

There is at most one row per bookie. So the driver builds the rows and then makes a table of them. The
bookie's configuration comes from the file of ``--bookie-conf`` if that file belongs to this bookie
(`auditor.model.bookie_conf`). Otherwise it is inferred (`auditor.model.cookie`). The rules are those of the
server (`auditor.model.start_refusal`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from auditor.model.bookie_conf import ConfiguredBookie, find_renamed_bookie
from auditor.model.columns import make_schema
from auditor.model.cookie import BookieConfiguration, ConfigSource, Cookie, infer_configuration
from auditor.model.index_refusal import FIRST_INDEX_LAYOUT, index_count_refusal, unnamed_index_refusal
from auditor.model.start_refusal import (
    BookieDirectory,
    Fault,
    MissingVersion,
    Refusal,
    UnreadableCookie,
    configured_paths,
    directories_refusal,
    legacy_refusal,
    unequal_cookie_fields,
)
from auditor.sources.bookies.paths import OwnedDirectory, match_directories
from auditor.tables.registry import StoreCookie

STARTS = make_schema(
    ("bookie_id", pa.string(), "a bookie whose directories were found"),
    (
        "source",
        pa.string(),
        "source of the bookie's configuration. configuration: its file. versions: its VERSION files. store: "
        "its cookie in the store. others: cookies of other bookies. nothing: no source",
    ),
    ("agreed", pa.bool_(), "whether all cookies of the bookie have its id and the same directories"),
    ("journal_dirs", pa.string(), "journal directories of the bookie, joined by commas"),
    ("ledger_dirs", pa.list_(pa.string()), "ledger directories of the bookie, in order"),
    (
        "index_dirs",
        pa.list_(pa.string()),
        "index directories of the bookie; null: same as the ledger directories",
    ),
    (
        "error",
        pa.string(),
        "exception with which the next start of the bookie would fail; null: it would start",
    ),
    ("fault", pa.string(), "kind of the fault that prevents the start"),
    ("reason", pa.string(), "sentence about the fault that prevents the start"),
    ("paths", pa.list_(pa.string()), "the configured directories at fault"),
    ("stored_id", pa.string(), "bookie id whose cookie in the store is at fault or missing"),
    ("expansion_error", pa.string(), "like error, for a start with allowStorageExpansion"),
    ("expansion_fault", pa.string(), "kind of the fault that prevents a start with storage expansion"),
    ("expansion_reason", pa.string(), "like reason, for a start with allowStorageExpansion"),
    ("expansion_paths", pa.list_(pa.string()), "like paths, for a start with allowStorageExpansion"),
    (
        "store_differs",
        pa.list_(pa.string()),
        "fields in which the store's cookie differs from every VERSION of the bookie",
    ),
    (
        "certain",
        pa.bool_(),
        "whether the fault is certain; false: another explanation is possible",
    ),
    (
        "way_out",
        pa.string(),
        "setting with which the bookie would start, and the cost of the setting; null: unknown",
    ),
    (
        "store_grows",
        pa.bool_(),
        "whether the setting allowStorageExpansion would accept the differences in store_differs, because "
        "one list of directories contains the other",
    ),
)


def starts(
    owned_directories: Sequence[OwnedDirectory],
    cookies: Iterable[StoreCookie],
    instance_id: str | None,
    replay_refusals: Mapping[str, Refusal] | None = None,
    configuration_file: ConfiguredBookie | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of `STARTS`, ordered by bookie.

    Args:
        owned_directories: All directories, each with the bookie at whose path it is.
        cookies: All cookies in the store.
        instance_id: The cluster's instance id, or None if it has none.
        replay_refusals: Refusals of bookies that cannot replay their journals. They count only if the cookies
            match.
        configuration_file: The settings in the file of ``--bookie-conf``, or None if there is no file.
    """
    cookie_by_bookie = {cookie.bookie_id: cookie for cookie in cookies}
    directories_by_bookie: dict[str, list[OwnedDirectory]] = {}
    for directory in owned_directories:
        if directory.place_bookie_id is not None:
            directories_by_bookie.setdefault(directory.place_bookie_id, []).append(directory)
    configuration_by_bookie = {
        name: _infer_configuration(name, directories, cookie_by_bookie)
        for name, directories in sorted(directories_by_bookie.items())
    }
    renamed_bookie_id = None
    if configuration_file is not None:
        directory_lists_by_bookie = {
            name: directory_lists
            for name, directory_lists in configuration_by_bookie.items()
            if directory_lists is not None
        }
        renamed_bookie_id = find_renamed_bookie(
            configuration_file, {*cookie_by_bookie, *directories_by_bookie}, directory_lists_by_bookie
        )
    rows = []
    for name, inferred_configuration in configuration_by_bookie.items():
        own_configuration = (
            configuration_file
            if configuration_file is not None
            and (configuration_file.belongs_to(name, inferred_configuration) or name == renamed_bookie_id)
            else None
        )
        bookie = _Bookie(
            name,
            directories_by_bookie[name],
            inferred_configuration,
            own_configuration,
            (replay_refusals or {}).get(name),
        )
        rows.append(_start_row(bookie, cookie_by_bookie, instance_id))
    return [row for row in rows if row is not None]


def _infer_configuration(
    name: str, directories: Sequence[OwnedDirectory], cookie_by_bookie: Mapping[str, StoreCookie]
) -> BookieConfiguration | None:
    versions = [directory.cookie for directory in directories if directory.cookie is not None]
    stored_cookie = cookie_by_bookie[name].cookie if name in cookie_by_bookie else None
    return infer_configuration(name, versions, stored_cookie)


@dataclass(frozen=True, slots=True)
class _Bookie:
    """A bookie's directories, the configuration inferred from cookies, and the configuration in its file."""

    name: str
    directories: Sequence[OwnedDirectory]
    inferred_conf: BookieConfiguration | None
    bookie_conf: ConfiguredBookie | None
    replay_refusal: Refusal | None

    @property
    def version_cookies(self) -> list[Cookie]:
        """Return the cookies in the bookie's directories, including cookies with a different id."""
        return [directory.cookie for directory in self.directories if directory.cookie is not None]

    @property
    def uses_rocksdb(self) -> bool:
        """Return whether the bookie's storage is DbLedgerStorage."""
        return any(directory.found_directory.has_rocksdb for directory in self.directories)

    @property
    def bookie_id_at_start(self) -> str:
        """Return the id under which the bookie would start."""
        return (self.bookie_conf and self.bookie_conf.bookie_id) or self.name

    @property
    def configuration(self) -> BookieConfiguration | None:
        """Return the bookie's lists of directories, or None if they are unknown.

        They come from the bookie's own configuration file if it was given. Otherwise they are inferred.
        """
        if self.bookie_conf is None:
            return self.inferred_conf
        cookies_agree = False
        if self.inferred_conf is not None and self.bookie_id_at_start == self.name:
            cookies_agree = (
                self.inferred_conf.do_cookies_agree
                and self.inferred_conf.directory_lists == self.bookie_conf.directory_lists
            )
        return BookieConfiguration(*self.bookie_conf.directory_lists, ConfigSource.CONFIG_FILE, cookies_agree)


def _start_row(
    bookie: _Bookie, cookie_by_bookie: Mapping[str, StoreCookie], instance_id: str | None
) -> dict[str, Any] | None:
    cookie_in_store, configuration = cookie_by_bookie.get(bookie.bookie_id_at_start), bookie.configuration
    if configuration is None:
        return None if cookie_in_store else _row_without_cookies(bookie)
    expected_cookie = configuration.expected_cookie(bookie.bookie_id_at_start, instance_id)
    matched_directories = match_directories(
        [path for _, path in configured_paths(expected_cookie)], bookie.directories
    ).directory_by_path
    unlisted_index_refusal = _refuse_unnamed_index(bookie, cookie_in_store, matched_directories)
    if unlisted_index_refusal is not None and bookie.bookie_conf is not None:
        expected_cookie = replace(expected_cookie, index_dirs=None)  # not in cookies of that layout
    refusal_after_cookies = (
        unlisted_index_refusal
        or index_count_refusal(expected_cookie, bookie.uses_rocksdb)
        or bookie.replay_refusal
    )
    current_refusal, refusal_after_expansion = _find_refusals(
        bookie, expected_cookie, cookie_in_store, matched_directories, refusal_after_cookies
    )
    differing_fields, adds_directories = _compare_with_store(
        bookie, expected_cookie, cookie_in_store.cookie if cookie_in_store else None
    )
    is_configuration_sure = bookie.bookie_conf is None or bookie.bookie_conf.bookie_id is not None
    return {
        "bookie_id": bookie.name,
        "source": configuration.source.value,
        "agreed": configuration.do_cookies_agree,
        "journal_dirs": configuration.journal_dirs,
        "ledger_dirs": list(configuration.ledger_dirs),
        "index_dirs": list(configuration.index_dirs) if configuration.index_dirs else None,
        **_refusal_columns(current_refusal, ""),
        "stored_id": current_refusal.stored_id if current_refusal else None,
        **_refusal_columns(refusal_after_expansion, "expansion_"),
        "store_differs": list(differing_fields),
        "certain": current_refusal is None or (current_refusal.certain and is_configuration_sure),
        "way_out": current_refusal.way_out if current_refusal else None,
        "store_grows": adds_directories,
    }


def _find_refusals(
    bookie: _Bookie,
    expected_cookie: Cookie,
    store_cookie: StoreCookie | None,
    matched_directories: Mapping[str, OwnedDirectory],
    refusal_after_cookies: Refusal | None,
) -> tuple[Refusal | None, Refusal | None]:
    """Return two refusals: of a start as configured, and of a start with allowStorageExpansion.

    A refusal is None if the bookie would start. ``refusal_after_cookies`` is the refusal by a step after the
    check of the cookies, or None.
    """
    present_directories = _configured_directories(expected_cookie, matched_directories)
    # An unreadable stored cookie also stops a start. A missing one is handled by the rules below.
    cookie = (
        (store_cookie.cookie or UnreadableCookie(store_cookie.damage or "damaged")) if store_cookie else None
    )
    stored_cookies = [] if cookie is None else [(expected_cookie.bookie_id, cookie)]
    allows_expansion = bookie.bookie_conf is not None and bookie.bookie_conf.allow_expansion
    current_refusal = (
        legacy_refusal(expected_cookie, stored_cookies, present_directories, allow_expansion=allows_expansion)
        or refusal_after_cookies
    )
    refusal_after_expansion = (
        legacy_refusal(expected_cookie, stored_cookies, present_directories, allow_expansion=True)
        or refusal_after_cookies
    )
    return current_refusal, refusal_after_expansion


def _compare_with_store(
    bookie: _Bookie, expected_cookie: Cookie, stored_cookie: Cookie | None
) -> tuple[tuple[str, ...], bool | None]:
    """Return the fields in which the store's cookie differs from every VERSION of the bookie.

    There are none if a VERSION agrees with the store's cookie, or if they cannot be compared. The second
    result is True if the only difference is that one cookie has more directories. It is None if no field
    differs.
    """
    is_inferred_from_disks = (
        bookie.inferred_conf is not None and bookie.inferred_conf.source is ConfigSource.OWN_VERSION_FILES
    )
    if not is_inferred_from_disks or stored_cookie is None or stored_cookie.bookie_id != bookie.name:
        return (), None
    versions_with_own_id = [version for version in bookie.version_cookies if version.bookie_id == bookie.name]
    # Only if no VERSION agrees with the store. If one does, the other disks differ from it.
    if not all(unequal_cookie_fields(version, stored_cookie) for version in versions_with_own_id):
        return (), None
    assert bookie.inferred_conf is not None
    disk_cookie = bookie.inferred_conf.expected_cookie(bookie.name, expected_cookie.instance_id)
    cookie_pairs = ((disk_cookie, stored_cookie), (stored_cookie, disk_cookie))
    adds_directories = any(
        not unequal_cookie_fields(*cookie_pair, allow_expansion=True) for cookie_pair in cookie_pairs
    )
    return unequal_cookie_fields(disk_cookie, stored_cookie), adds_directories


def _row_without_cookies(bookie: _Bookie) -> dict[str, Any] | None:
    """Return the row of a bookie that has data but no cookie at all, or None for other bookies."""
    directories = [directory.found_directory for directory in bookie.directories]
    nonempty_directories = [
        directory.path for directory in directories if directory.version_absent and directory.empty is False
    ]
    if not nonempty_directories or not all(
        directory.version_absent for directory in directories if directory.has_current
    ):
        return None
    fault_text = "has no VERSION but is not empty, and the store has no cookie for the bookie"
    refusal = directories_refusal(Fault.NOT_EMPTY, nonempty_directories, fault_text, bookie.name)
    return dict.fromkeys(STARTS.names) | {
        "bookie_id": bookie.name,
        "source": ConfigSource.NO_SOURCE.value,
        "agreed": False,
        **_refusal_columns(refusal, ""),
        "stored_id": bookie.name,
        **_refusal_columns(refusal, "expansion_"),
        "store_differs": [],
        "certain": True,
    }


def _configured_directories(
    expected_cookie: Cookie, matched_directories: Mapping[str, OwnedDirectory]
) -> list[BookieDirectory]:
    """Return the configured directories, each with the VERSION found at its path.

    The VERSION is None if there is none at the path.
    """
    return [
        BookieDirectory(
            path, role, _read_version(matched_directories[path]) if path in matched_directories else None
        )
        for role, path in configured_paths(expected_cookie)
    ]


def _refuse_unnamed_index(
    bookie: _Bookie, store_cookie: StoreCookie | None, matched_directories: Mapping[str, OwnedDirectory]
) -> Refusal | None:
    """Return the refusal because of index directories that no cookie of the bookie names.

    Returns None if there are no such directories.
    """
    matched_paths = {directory.found_directory.path for directory in matched_directories.values()}
    paths = {
        directory.found_directory.path
        for directory in bookie.directories
        if directory.found_directory.index_alone
        and directory.found_directory.path not in matched_paths
        and directory.cookie is not None
        and directory.cookie.bookie_id == bookie.name
        and directory.cookie.layout < FIRST_INDEX_LAYOUT
    }
    if bookie.bookie_conf is not None and bookie.bookie_conf.index_dirs:
        cookies = [
            *bookie.version_cookies,
            *([store_cookie.cookie] if store_cookie and store_cookie.cookie else []),
        ]
        if cookies and all(
            cookie.layout < FIRST_INDEX_LAYOUT and cookie.index_dirs is None for cookie in cookies
        ):
            paths = {*bookie.bookie_conf.index_dirs}
    return unnamed_index_refusal(sorted(paths), bookie.uses_rocksdb) if paths else None


def _read_version(directory: OwnedDirectory) -> Cookie | UnreadableCookie | MissingVersion | None:
    directory_scan = directory.found_directory
    if directory.cookie is not None:
        return directory.cookie
    if directory_scan.version_absent:
        return MissingVersion(directory_scan.empty, directory_scan.old_data)
    # If the audit may not read the file, the bookie may. Only bytes that were read prove damage.
    return (
        UnreadableCookie(directory.version_damage or "damaged")
        if directory_scan.version is not None
        else None
    )


def _refusal_columns(refusal: Refusal | None, column_prefix: str) -> dict[str, Any]:
    return {
        f"{column_prefix}error": refusal.error if refusal else None,
        f"{column_prefix}fault": refusal.fault.value if refusal else None,
        f"{column_prefix}reason": refusal.reason if refusal else None,
        f"{column_prefix}paths": list(refusal.paths) if refusal else [],
    }
