"""A bookie's id and directories from its configuration file, and the bookie that a file belongs to.

A file may belong to one bookie, or all bookies may use the same file. A file that names an id belongs to the
bookie with this id. A file without an id is taken for the configuration of each bookie whose cookies share a
directory with it. This guess can be wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from auditor.model.cookie import BookieConfiguration, DirectoryLists

DEFAULT_PORT = 3181
_TRUE_WORDS = frozenset({"true", "t", "yes", "y", "on"})
_FALSE_WORDS = frozenset({"false", "f", "no", "n", "off"})
RESOLVER_KEYS = ("bookieAddressResolverEnabled", "enableBookieAddressResolver")
"""Keys of BP-41's flag: the key that a client reads (``ClientConfiguration``), and that of the proposal."""


@dataclass(frozen=True, slots=True)
class ConfiguredBookie:
    """A bookie as its configuration file describes it; the lists of directories have the form of a `Cookie`.

    ``bookie_id`` is None if the file has neither ``bookieId`` nor ``advertisedAddress``. The id then follows
    from the host's own address.
    """

    journal_dirs: str
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] | None
    bookie_id: str | None
    allow_expansion: bool

    @property
    def directory_lists(self) -> DirectoryLists:
        """The three lists: journal, ledger and index directories."""
        return self.journal_dirs, self.ledger_dirs, self.index_dirs

    @property
    def paths(self) -> frozenset[str]:
        """All directories of the bookie."""
        return frozenset((*self.journal_dirs.split(","), *self.ledger_dirs, *(self.index_dirs or ())))

    def shares_directories(self, configuration: BookieConfiguration) -> bool:
        """Return whether the file and a bookie's cookies have a directory in common."""
        cookie_paths = {*configuration.journal_dirs.split(","), *configuration.ledger_dirs}
        return not self.paths.isdisjoint(cookie_paths | {*(configuration.index_dirs or ())})

    def belongs_to(self, bookie_id: str, configuration: BookieConfiguration | None) -> bool:
        """Return whether this file belongs to a bookie: by the file's id, else by the bookie's cookies."""
        if self.bookie_id is not None:
            return self.bookie_id == bookie_id
        return configuration is not None and self.shares_directories(configuration)


def configured_bookie(properties: Mapping[str, str]) -> ConfiguredBookie | None:
    """Return the bookie that a configuration file describes; None if the file does not name its directories.

    If the file does not name them, a server uses temporary directories, which no cookie of a real bookie has.

    >>> lists = {"journalDirectory": "/j", "ledgerDirectories": "/l0, /l1"}
    >>> found = configured_bookie({**lists, "advertisedAddress": "bk1"})
    >>> found.journal_dirs, found.ledger_dirs, found.index_dirs, found.bookie_id
    ('/j', ('/l0', '/l1'), None, 'bk1:3181')
    """
    journal_dirs = _split_list(properties.get("journalDirectories")) or _split_list(
        properties.get("journalDirectory")
    )
    ledger_dirs = _split_list(properties.get("ledgerDirectories"))
    if not journal_dirs or not ledger_dirs:
        return None
    address = properties.get("advertisedAddress", "").strip()
    port = properties.get("bookiePort", str(DEFAULT_PORT)).strip()
    return ConfiguredBookie(
        ",".join(journal_dirs),
        ledger_dirs,
        _split_list(properties.get("indexDirectories")) or None,
        properties.get("bookieId") or (f"{address}:{port}" if address else None),
        properties.get("allowStorageExpansion", "").strip().lower() in _TRUE_WORDS,
    )


def resolves_ids(properties: Mapping[str, str]) -> bool:
    """Return whether clients with this configuration look up bookies in their registrations (BP-41).

    The client, the auditor and all tools read the flag from their own configuration; it is on by default. If
    it is off, they read a bookie id as host:port, and ignore the endpoints that the bookie registered.

    >>> resolves_ids({}), resolves_ids({"bookieAddressResolverEnabled": "false"})
    (True, False)

    Raises:
        ValueError: the value is neither true nor false; no client starts with it.
    """
    for key in RESOLVER_KEYS:
        flag_value = properties.get(key)
        if flag_value is not None:
            flag_text = flag_value.strip().lower()
            if flag_text not in _TRUE_WORDS | _FALSE_WORDS:
                raise ValueError(f"{key}: {flag_value!r} is neither true nor false")
            return flag_text in _TRUE_WORDS
    return True


def readdressed_bookie(
    conf: ConfiguredBookie, known_ids: Collection[str], configurations: Mapping[str, BookieConfiguration]
) -> str | None:
    """Return the bookie to which a configuration file gives a new id; None if the file gives no new id.

    The result is the only bookie whose cookies contain directories of the file. The file gives no new id if
    no bookie or several bookies have such cookies, or if the file's id is among ``known_ids``.

    Args:
        conf: the bookie as the file describes it.
        known_ids: the ids that the cluster knows.
        configurations: the configuration of each bookie, inferred from its cookies, by id.
    """
    if conf.bookie_id is None or conf.bookie_id in known_ids:
        return None
    sharing_bookies = [
        name for name, configuration in configurations.items() if conf.shares_directories(configuration)
    ]
    return sharing_bookies[0] if len(sharing_bookies) == 1 else None


def _split_list(text: str | None) -> tuple[str, ...]:
    """Split a list at commas, without white space around the parts, as the server does."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
