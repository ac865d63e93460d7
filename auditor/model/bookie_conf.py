"""The id and the directories in a bookie's configuration file, and the bookie that such a file belongs to.

A file may belong to one bookie, or all bookies may use the same file. A file that contains an id belongs to
the bookie with this id. A file without an id is assumed to be the configuration of every bookie whose
cookies share a directory with it. This guess can be wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from auditor.model.cookie import BookieConfiguration, DirectoryLists

DEFAULT_PORT = 3181
_TRUE_WORDS = frozenset({"true", "t", "yes", "y", "on"})
_FALSE_WORDS = frozenset({"false", "f", "no", "n", "off"})
ADDRESS_RESOLVER_KEYS = ("bookieAddressResolverEnabled", "enableBookieAddressResolver")
"""Keys of BP-41's flag: the key that a client reads (``ClientConfiguration``), and that of the proposal."""


@dataclass(frozen=True, slots=True)
class ConfiguredBookie:
    """A bookie as described by its configuration file.

    The lists of directories have the same form as in a `Cookie`. ``bookie_id`` is None if the file has
    neither ``bookieId`` nor ``advertisedAddress``. The server then derives the id from its host's own
    address.
    """

    journal_dirs: str
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] | None
    bookie_id: str | None
    allow_expansion: bool

    @property
    def directory_lists(self) -> DirectoryLists:
        """The journal directories, the ledger directories and the index directories."""
        return self.journal_dirs, self.ledger_dirs, self.index_dirs

    @property
    def paths(self) -> frozenset[str]:
        """All directories of the bookie."""
        return frozenset((*self.journal_dirs.split(","), *self.ledger_dirs, *(self.index_dirs or ())))

    def shares_directories(self, configuration: BookieConfiguration) -> bool:
        """Return whether the file and a bookie's cookies have a directory in common.

        ``configuration`` was inferred from these cookies.
        """
        cookie_paths = {*configuration.journal_dirs.split(","), *configuration.ledger_dirs}
        return not self.paths.isdisjoint(cookie_paths | {*(configuration.index_dirs or ())})

    def belongs_to(self, bookie_id: str, configuration: BookieConfiguration | None) -> bool:
        """Return whether this file belongs to a bookie.

        If the file contains an id, only the id decides. Otherwise the file belongs to the bookie if it shares
        a directory with ``configuration``. The configuration is inferred from the bookie's cookies.
        """
        if self.bookie_id is not None:
            return self.bookie_id == bookie_id
        return configuration is not None and self.shares_directories(configuration)


def parse_bookie_conf(properties: Mapping[str, str]) -> ConfiguredBookie | None:
    """Return the bookie that a configuration file describes.

    Returns None if the file does not set the journal and ledger directories. A server then uses temporary
    directories, which no cookie of a real bookie contains.

    >>> lists = {"journalDirectory": "/j", "ledgerDirectories": "/l0, /l1"}
    >>> found = parse_bookie_conf({**lists, "advertisedAddress": "bk1"})
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


def uses_registrations(properties: Mapping[str, str]) -> bool:
    """Return whether clients with this configuration look up bookies in their registrations (BP-41).

    Clients, the auditor and all tools each read ``bookieAddressResolverEnabled`` from their own
    configuration. It is true by default. If it is false, they parse a bookie id as host:port, and ignore
    the endpoints that the bookie registered.

    >>> uses_registrations({}), uses_registrations({"bookieAddressResolverEnabled": "false"})
    (True, False)

    Raises:
        ValueError: the value is neither true nor false. No client starts with such a value.
    """
    for key in ADDRESS_RESOLVER_KEYS:
        flag_value = properties.get(key)
        if flag_value is not None:
            flag_text = flag_value.strip().lower()
            if flag_text not in _TRUE_WORDS | _FALSE_WORDS:
                raise ValueError(f"{key}: {flag_value!r} is neither true nor false")
            return flag_text in _TRUE_WORDS
    return True


def find_renamed_bookie(
    conf: ConfiguredBookie, known_ids: Collection[str], configurations: Mapping[str, BookieConfiguration]
) -> str | None:
    """Return the existing bookie to which a configuration file gives a new id, or None.

    The result is the only bookie whose cookies share a directory with the file. The result is None if no
    bookie or several bookies have such cookies. It is also None if the file contains no id, or an id in
    ``known_ids``.

    Args:
        conf: the bookie as the file describes it.
        known_ids: the ids that already exist in the cluster.
        configurations: the configuration of each bookie, by its id, inferred from its cookies.
    """
    if conf.bookie_id is None or conf.bookie_id in known_ids:
        return None
    sharing_bookies = [
        name for name, configuration in configurations.items() if conf.shares_directories(configuration)
    ]
    return sharing_bookies[0] if len(sharing_bookies) == 1 else None


def _split_list(text: str | None) -> tuple[str, ...]:
    """Split a list at commas, and strip white space from the parts, like the server."""
    return tuple(item_text.strip() for item_text in (text or "").split(",") if item_text.strip())
