r"""What may be the id of a bookie: what the server takes, and what the proposal allows (BP-41).

The proposal allows ASCII letters, digits, ``:``, ``-`` and ``.``. The server's pattern has ``:-_`` inside a
character class, which is a range, and so also takes ``; < = > ? @ [ \ ] ^ _``. Of these only ``_`` was meant:
clusters have it, and it is let pass here. The server refuses ``readonly`` in
any case, the name of a directory among the registrations. Ids are compared as they are written.
"""

from __future__ import annotations

import re

ACCEPTED = r"[a-zA-Z0-9:-_.\-]+"
"""What the server's ``BookieId.validateBookieId`` takes whole, as Python and Java write it."""

PORTABLE = r"[a-zA-Z0-9:_.\-]+"
"""What BP-41 allows, and ``_``."""

RESERVED = r"(?i:readonly)"
"""What the server refuses all the same."""

_ACCEPTED = re.compile(ACCEPTED)
_PORTABLE = re.compile(PORTABLE)
_RESERVED = re.compile(RESERVED)
_PORT = re.compile(r"[+-]?[0-9]{1,10}")


def is_accepted(id: str) -> bool:
    """Whether BookKeeper's ``BookieId.parse`` takes an id; it refuses a whole ledger over one it does not.

    >>> is_accepted("bk1:3181"), is_accepted("[::1]:3181"), is_accepted("ReadOnly"), is_accepted("a b")
    (True, True, False, False)
    """
    return _ACCEPTED.fullmatch(id) is not None and _RESERVED.fullmatch(id) is None


def portable(id: str) -> bool:
    """Whether an id keeps to what BP-41 allows, and ``_``, which real clusters use.

    >>> portable("bk1:3181"), portable("[::1]:3181")
    (True, False)
    """
    return _PORTABLE.fullmatch(id) is not None and _RESERVED.fullmatch(id) is None


def legacy_address(id: str) -> tuple[str, int] | None:
    """Host and port of an id that is an address, as ids were before BP-41; None for a custom id.

    Reads what the server reads: parts after the port do not matter, and no port is too large.

    >>> legacy_address("bk1:3181"), legacy_address("bookie-7"), legacy_address("::1:3181")
    (('bk1', 3181), None, None)
    """
    host, colon, rest = id.partition(":")
    port = rest.partition(":")[0]
    if not colon or _PORT.fullmatch(port) is None or not -(2**31) <= int(port) < 2**31:
        return None
    return host, int(port)
