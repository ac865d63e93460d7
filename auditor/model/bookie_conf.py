"""What a bookie's configuration file says of its id and its directories, and whose file it is.

A file may be one bookie's, or the same on all. It is a bookie's own where it names its id. Where it names no
id, a bookie whose cookies share a directory with it is taken to be configured so, which is not certain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from auditor.model.cookie import BookieConfiguration, DirectoryLists

DEFAULT_PORT = 3181
_YES = frozenset({"true", "t", "yes", "y", "on"})
_NO = frozenset({"false", "f", "no", "n", "off"})
RESOLVER_KEYS = ("bookieAddressResolverEnabled", "enableBookieAddressResolver")
"""The server's name of BP-41's flag (``ClientConfiguration``), and the proposal's own."""


@dataclass(frozen=True, slots=True)
class ConfiguredBookie:
    """A bookie as its configuration file describes it; lists are as a `Cookie` keeps them.

    ``bookie_id`` is None where the file says neither ``bookieId`` nor ``advertisedAddress``: then the id
    follows from the host's own address.
    """

    journal_dirs: str
    ledger_dirs: tuple[str, ...]
    index_dirs: tuple[str, ...] | None
    bookie_id: str | None
    allow_expansion: bool

    @property
    def lists(self) -> DirectoryLists:
        """Its journal, ledger and index directories."""
        return self.journal_dirs, self.ledger_dirs, self.index_dirs

    @property
    def paths(self) -> frozenset[str]:
        """All its directories."""
        return frozenset((*self.journal_dirs.split(","), *self.ledger_dirs, *(self.index_dirs or ())))

    def shares_directories(self, configuration: BookieConfiguration) -> bool:
        """Whether the bookie's cookies name any of these directories."""
        cookies = {*configuration.journal_dirs.split(","), *configuration.ledger_dirs}
        return not self.paths.isdisjoint(cookies | {*(configuration.index_dirs or ())})

    def is_of(self, bookie_id: str, configuration: BookieConfiguration | None) -> bool:
        """Whether a bookie is configured so, by its id, or by its cookies where the file names no id."""
        if self.bookie_id is not None:
            return self.bookie_id == bookie_id
        return configuration is not None and self.shares_directories(configuration)


def configured_bookie(properties: Mapping[str, str]) -> ConfiguredBookie | None:
    """Return what a configuration file says of a bookie; None if it does not name its directories.

    Without them a server takes temporary ones, which no cookie of a real bookie names.

    >>> lists = {"journalDirectory": "/j", "ledgerDirectories": "/l0, /l1"}
    >>> found = configured_bookie({**lists, "advertisedAddress": "bk1"})
    >>> found.journal_dirs, found.ledger_dirs, found.index_dirs, found.bookie_id
    ('/j', ('/l0', '/l1'), None, 'bk1:3181')
    """
    journals = _list(properties.get("journalDirectories")) or _list(properties.get("journalDirectory"))
    ledgers = _list(properties.get("ledgerDirectories"))
    if not journals or not ledgers:
        return None
    address = properties.get("advertisedAddress", "").strip()
    port = properties.get("bookiePort", str(DEFAULT_PORT)).strip()
    return ConfiguredBookie(
        ",".join(journals),
        ledgers,
        _list(properties.get("indexDirectories")) or None,
        properties.get("bookieId") or (f"{address}:{port}" if address else None),
        properties.get("allowStorageExpansion", "").strip().lower() in _YES,
    )


def resolves_ids(properties: Mapping[str, str]) -> bool:
    """Return whether clients with this configuration look for bookies at what these registered (BP-41).

    The client, the auditor and all tools read the flag, from their own configuration; it is on by default.
    With it off an id is read as host:port, whatever the bookie registered.

    >>> resolves_ids({}), resolves_ids({"bookieAddressResolverEnabled": "false"})
    (True, False)

    Raises:
        ValueError: the value is neither true nor false, so that no client starts with it.
    """
    for key in RESOLVER_KEYS:
        value = properties.get(key)
        if value is not None:
            word = value.strip().lower()
            if word not in _YES | _NO:
                raise ValueError(f"{key}: {value!r} is neither true nor false")
            return word in _YES
    return True


def readdressed_place(
    conf: ConfiguredBookie, known_ids: Collection[str], places: Mapping[str, BookieConfiguration]
) -> str | None:
    """Return the bookie that the file gives another id: half of what a change of its address takes.

    That is the only one whose cookies name the file's directories, if nothing knows the file's id. None:
    there is none, or several are configured alike.
    """
    if conf.bookie_id is None or conf.bookie_id in known_ids:
        return None
    sharing = [name for name, configuration in places.items() if conf.shares_directories(configuration)]
    return sharing[0] if len(sharing) == 1 else None


def _list(text: str | None) -> tuple[str, ...]:
    """The parts of a list, as the server's reader splits it: at commas, without white space around them."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
