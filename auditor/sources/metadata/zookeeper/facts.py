"""What a running ZooKeeper tells about itself: who serves it, and about how many ledgers it has.

It tells of each znode how many children it has, so the znodes above the leaves are looked at: level by level,
and of a level with more than `SAMPLED` only as many, evenly spread, each standing for its neighbours.

``srvr`` is answered where its operators allow that (``4lw.commands.whitelist``; the default allows it). It is
sent in plain text: a port that speaks TLS is only knocked at.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Sequence

from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.credentials import read_credentials
from auditor.sources.metadata.store import CLUSTER_CHILDREN, LedgerCount, Server, StoreOptions
from auditor.sources.metadata.zookeeper.client import FailedRead, ZooKeeperReader

SAMPLED = 64
"""Znodes of one level that are looked at: some hundreds of reads for a whole tree."""

_LEVELS = (
    (re.compile("[0-9]{2}"), 1, (LayoutKind.HIERARCHICAL, LayoutKind.LEGACY_HIERARCHICAL)),
    (re.compile("[0-9]{3}"), 3, (LayoutKind.HIERARCHICAL, LayoutKind.LONG_HIERARCHICAL)),
)
"""Children of the root that hold ledgers, how many levels lie between them and the leaves, and where."""

ANSWER_LIMIT = 4096
"""Bytes of an answer to ``srvr`` that are read; usual are 200."""

_VERSION = re.compile(r"^Zookeeper version: ([0-9][\w.]*)", re.MULTILINE)
_MODE = re.compile(r"^Mode: (\w+)", re.MULTILINE)


def count_ledgers(hosts: Sequence[str], root: str, layout: LayoutKind, options: StoreOptions) -> LedgerCount:
    """Count or estimate the ledgers below ``root``. Raises `StoreError` where it cannot be reached."""
    reader = ZooKeeperReader(hosts, options, probe=root)

    def children(paths: Sequence[str]) -> list[str]:
        listed = zip(paths, reader.children(paths), strict=True)
        return [
            f"{path}/{n}"
            for path, names in listed
            if not isinstance(names, FailedRead)
            for n in sorted(names)
        ]

    def grandchildren(paths: Sequence[str]) -> int:
        return sum(each.stat.num_children for each in reader.data(paths) if not isinstance(each, FailedRead))

    try:
        if layout is LayoutKind.FLAT:  # the list itself could be too long for one answer
            own = reader.data([f"{root}/{name}" for name in CLUSTER_CHILDREN])
            there = sum(not isinstance(each, FailedRead) for each in own)
            return LedgerCount(max(0, grandchildren([root]) - there), True)
        tops = children([root])
        ledgers, exact = 0.0, True
        for name, levels, layouts in _LEVELS:
            frontier = [path for path in tops if layout in layouts and name.fullmatch(path[len(root) + 1 :])]
            each_stands_for = 1.0
            for level in range(levels + 1):
                if len(frontier) > SAMPLED:
                    exact = False
                    each_stands_for *= len(frontier) / SAMPLED
                    frontier = [frontier[n * len(frontier) // SAMPLED] for n in range(SAMPLED)]
                if level < levels:
                    frontier = children(frontier)
            ledgers += each_stands_for * grandchildren(frontier)
        return LedgerCount(round(ledgers), exact)
    finally:
        reader.close()


def probe(host: str, options: StoreOptions) -> Server:
    """Ask one server which version and mode it is, with ``srvr``."""
    tls = read_credentials(options.credentials).zookeeper.tls is not None
    name, _, port = host.rpartition(":")
    begun = time.monotonic()
    answer = b""
    try:
        with socket.create_connection((name.strip("[]"), int(port)), options.timeout_s) as connection:
            latency = (time.monotonic() - begun) * 1000
            if tls:
                return Server(host, True, latency, trouble="srvr is not asked over TLS")
            connection.sendall(b"srvr")
            while len(answer) < ANSWER_LIMIT and (more := connection.recv(ANSWER_LIMIT)):
                answer += more
    except OSError as error:
        if not answer:
            return Server(host, False, trouble=error.strerror or str(error))
    said = answer.decode("utf-8", "replace")
    version, mode = _VERSION.search(said), _MODE.search(said)
    if version is None:
        why = "it does not allow srvr" if "whitelist" in said else "it does not answer srvr"
        return Server(host, True, latency, trouble=why)
    return Server(host, True, latency, version[1], mode[1] if mode else None)
