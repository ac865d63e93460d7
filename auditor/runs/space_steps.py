"""What frees space of each bookie, the most first: from findings of entry logs and classes of bytes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from auditor.model.amounts import plural
from auditor.model.finding import Confidence
from auditor.model.space_total import NO_BOOKIE, SpaceStep
from auditor.model.states import SpaceClass
from auditor.runs.leaked_bytes import leaked_bytes

if TYPE_CHECKING:
    from auditor.runs.reader import RunReader

HTTP_PORT = 8080
"""httpServerPort, where nobody sets it."""

RECLAIMABLE, PINNED = "entry-log-reclaimable", "entry-log-pinned"
SUSPECTS_METADATA = frozenset({"metadata-suspect", "alias-gc-danger", "gc-would-delete-live"})
"""Findings beside which nobody should start a collection."""

_DELETES = (
    "danger; what it deletes does not come back. See first that the run has no metadata-suspect, "
    "alias-gc-danger or gc-would-delete-live"
)
_UNOWNED = (
    "none; it reads the run. To delete a ledger is danger: nothing brings it back, and whoever still names "
    "it fails to open it"
)
_REWRITES = "load; it collects first, then rewrites logs, and needs free space for what remains of them"


def space_steps(run: RunReader, classes: Mapping[str, Mapping[str, int]]) -> tuple[SpaceStep, ...]:
    """The steps of all bookies, those of one that free most first; ``classes`` are each bookie's bytes.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    hosts = _hosts(run)
    warned = {
        row["bookie_id"]: row["id"]
        for row in _findings(run, SUSPECTS_METADATA)
        if row["bookie_id"] is not None
    }
    found: list[SpaceStep] = []
    for row in _findings(run, {RECLAIMABLE, PINNED}):
        bookie = row["bookie_id"]
        url = gc_url(bookie, hosts.get(bookie))
        doubt = "the finding is suspect" if row["confidence"] != Confidence.CONFIRMED else None
        if bookie in warned:
            doubt = f"{warned[bookie]} is found on this bookie: start nothing before that is clear"
        found += _of_finding(bookie, row["id"], json.loads(row["evidence"]), url, doubt)
    found += _over_replicated(classes, warned)
    found += _leaked(run)
    return tuple(sorted(found, key=lambda step: (step.bookie_id, -step.bytes, step.what)))


def gc_url(bookie_id: str, endpoint: tuple[str, int] | None = None) -> str:
    """Where a bookie's HTTP server takes a collection; ``endpoint``: its host and HTTP port, where known.

    >>> gc_url("bk1.example:3181"), gc_url("custom-id")
    ('http://bk1.example:8080/api/v1/bookie/gc', 'http://HOST:8080/api/v1/bookie/gc')
    """
    host, _, port = bookie_id.rpartition(":")
    if endpoint is not None:
        host, http = endpoint
    else:
        host, http = (host, HTTP_PORT) if host and port.isdigit() else ("HOST", HTTP_PORT)
    return f"http://{host}:{http}/api/v1/bookie/gc"


def _of_finding(
    bookie_id: str, check: str, evidence: Mapping[str, Any], url: str, doubt: str | None
) -> Iterator[SpaceStep]:
    if check == RECLAIMABLE:
        what = f"collection deletes {evidence['logs']:,} entry logs of which no ledger is left"
        yield SpaceStep(
            bookie_id, evidence["bytes"], what, f"curl -X PUT {shlex.quote(url)}", _DELETES, doubt
        )
        return
    minor, major = (round(100 * evidence[f"{name}_threshold"]) for name in ("minor", "major"))
    for name, what, command, risk in (
        (
            "minor",
            f"minor compaction rewrites entry logs of which less than {minor} % is needed",
            _compaction(url, major=False),
            _REWRITES,
        ),
        (
            "major",
            f"major compaction rewrites entry logs of which {minor} to {major} % is needed",
            _compaction(url, major=True),
            _REWRITES,
        ),
        (
            "stranded",
            f"no compaction rewrites entry logs of which {major} % or more is needed; a higher "
            "majorCompactionThreshold in the bookie's configuration does, from its next start on",
            None,
            "load; the higher the threshold, the more is rewritten for each byte that comes free",
        ),
    ):
        if evidence[f"{name}_bytes"]:
            yield SpaceStep(bookie_id, evidence[f"{name}_bytes"], what, command, risk, doubt)


def _compaction(url: str, major: bool) -> str:
    # Servers before 4.17 fail where one of the two is not said.
    body = json.dumps({"forceMajor": major, "forceMinor": True})
    return f"curl -X PUT -d {shlex.quote(body)} {shlex.quote(url)}"


def _over_replicated(
    classes: Mapping[str, Mapping[str, int]], warned: Mapping[str, str]
) -> Iterator[SpaceStep]:
    for bookie, sizes in classes.items():
        if (size := sizes.get(SpaceClass.OVER_REPLICATED, 0)) and bookie != NO_BOOKIE:
            what = (
                "ledgers that name the bookie in no ensemble go by themselves after a day of its uptime "
                "(gcOverreplicatedLedgerWaitTime); collection and compaction free them then"
            )
            doubt = f"{warned[bookie]} is found on this bookie" if bookie in warned else None
            yield SpaceStep(bookie, size, what, None, _DELETES, doubt)


def _leaked(run: RunReader) -> Iterator[SpaceStep]:
    """Ledgers that belong to nobody: what deleting them gives back, once compaction has run."""
    command = f"bkaudit report {shlex.quote(run.path)} --leaks"
    for bookie, leaked in leaked_bytes(run).items():
        what = (
            f"{plural(leaked.ledgers, 'ledger belongs', 'ledgers belong')} to nobody (ledger-unowned): "
            "see the list; what `bookkeeper shell deleteledger -l ID` deletes, collection and compaction free"
        )
        open_ones = leaked.ledgers - leaked.confirmed
        doubt = f"{open_ones:,} of them only suspected: delete none of these" if open_ones else None
        yield SpaceStep(bookie, leaked.bytes, what, command, _UNOWNED, doubt)


def _findings(run: RunReader, ids: set[str] | frozenset[str]) -> Iterator[dict[str, Any]]:
    import pyarrow.dataset as ds

    columns = ["id", "bookie_id", "confidence", "evidence"]
    for batch in run.batches("findings", columns, ds.field("id").isin(sorted(ids))):
        yield from batch.to_pylist()


def _hosts(run: RunReader) -> dict[str, tuple[str, int]]:
    """Host and HTTP port of the bookies that registered both."""
    rows = run.table("registrations", ["bookie_id", "endpoints", "host", "used"]).to_pylist()
    return {
        row["bookie_id"]: (row["host"], end["port"])
        for row in rows
        if row["used"] and row["host"]
        for end in row["endpoints"] or ()
        if end["protocol"] == "http" and end["port"]
    }
