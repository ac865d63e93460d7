"""What a running store tells about itself: its servers, and about how many ledgers it has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerCount:
    """So many ledgers of scope 0 (etcd: of all); ``exact`` where nothing stands for another."""

    ledgers: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the URI: whether it answers, in how many ms, its version and mode.

    ``trouble`` says why it does not answer, or why it does not tell its version, which is None then.
    """

    host: str
    reached: bool
    latency_ms: float | None = None
    version: str | None = None
    mode: str | None = None
    trouble: str | None = None
