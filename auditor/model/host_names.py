"""Names of hosts, as far as they can be compared without asking DNS."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_NAME = 253
"""Characters of the longest name that DNS knows."""

_IP = re.compile(r"[0-9.]+|.*:.*")
_ANYONES = frozenset({"", "0.0.0.0", "127.0.0.1", "localhost", "localhost.localdomain", "::", "::1"})


def same_name(host: str) -> str:
    """A host's name as DNS compares it: letter case and a dot at the end do not matter.

    >>> same_name("BK1.dc1.Example.")
    'bk1.dc1.example'
    """
    return host.lower().removesuffix(".")


def is_ip(host: str) -> bool:
    """Whether a host is written as an address of its own, or can at least be no name.

    >>> is_ip("10.0.0.1"), is_ip("bk1"), is_ip("1.bk")
    (True, False, False)
    """
    return _IP.fullmatch(host) is not None


def anyones(host: str) -> bool:
    """Whether a host is another machine for everyone who says it, such as localhost.

    >>> anyones("localhost"), anyones("127.0.103.1")
    (True, False)
    """
    return same_name(host) in _ANYONES


def shorter_names(host: str) -> Iterator[str]:
    """The names that a host may have within its own domains: its first labels, the shortest first.

    >>> list(shorter_names("bk1.dc1.example")), list(shorter_names("10.0.0.1"))
    (['bk1', 'bk1.dc1'], [])
    """
    if is_ip(host) or len(host) > MAX_NAME:
        return
    for position, letter in enumerate(host):
        if letter == "." and position:
            yield host[:position]
