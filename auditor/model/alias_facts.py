"""What is known of ids that may be one bookie, and what makes them look like it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from auditor.model.cookie import Cookie

HostPort = tuple[str, int]


class Rule(StrEnum):
    """What makes two ids look like one bookie."""

    SAME_ADDRESS = "same-address"
    ENDPOINT_IS_ID = "endpoint-is-id"
    SAME_ENDPOINT = "same-endpoint"
    NAME_AND_IP = "name-and-ip"
    SHORT_NAME = "short-name"
    COOKIE_NAMES = "cookie-names"
    DISKS_NAME = "disks-name"
    SAME_DIRECTORIES = "same-directories"
    SAME_LEDGERS = "same-ledgers"


@dataclass(frozen=True, slots=True)
class BookieFacts:
    """What is known of one id.

    ``address`` is where it registered that it answers (its endpoint of bookie-rpc, or its id where it
    registered no data); None where it is not ``registered``, or says nowhere. ``hosts`` are the hosts of all
    its endpoints. ``cookie`` is the store's, under this id. ``disks`` are the ids that the VERSION files in
    its place carry, one per file.
    """

    registered: bool = False
    address: HostPort | None = None
    hosts: tuple[str, ...] = ()
    cookie: Cookie | None = None
    disks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """Two ids that one rule holds for one bookie; ``one`` is the lesser. ``joins``: not just a hint.

    ``against`` is what speaks against it: with it, an edge is a hint at most. ``apart``: their ledgers tell
    the two apart, so that no number of hints joins them.
    """

    one: str
    other: str
    rule: Rule
    joins: bool
    evidence: str
    against: str | None = None
    apart: bool = False


Found = Iterable[tuple[str, str, Rule, str]]
"""What a rule finds: two ids, itself, and the evidence in words."""
