"""What a page carries besides what it shows: text, deflated and in base64, that its script unpacks.

Every block is whole by itself, so that whoever writes or reads a page has one of them at hand and no more.
A block of findings has a line for each (`auditor.reports.html.findings`), a block of drawings is a JSON array
of pairs, a drawing's name and its HTML. No letter of base64 means anything to HTML.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import islice

from auditor.model.finding import Finding, Standing
from auditor.reports.html.findings import finding_shown

FINDINGS_PACKED = 1_000_000
"""Findings on a page at most: a browser needs some 500 bytes for each."""

_BLOCK = 4_000
_DRAWINGS_BLOCK = 200


def findings_packed(findings: Iterable[tuple[Finding, Standing | None]]) -> Iterator[str]:
    """Blocks of the first `FINDINGS_PACKED` findings, in their order."""
    lines = ("\t".join(finding_shown(*each)) for each in islice(findings, FINDINGS_PACKED))
    while block := "\n".join(islice(lines, _BLOCK)):
        yield _pack(block)


def drawings_packed(drawings: Iterable[tuple[str, str]], room: int) -> Iterator[str]:
    """Blocks of drawings by name: as many, from the first on, as fit into ``room`` characters unpacked."""
    fitting = _fitting(drawings, room)
    while block := list(islice(fitting, _DRAWINGS_BLOCK)):
        yield _pack(json.dumps(block))


def _pack(text: str) -> str:
    """A text as a block: zlib's form, in base64.

    >>> from base64 import b64decode
    >>> zlib.decompress(b64decode(_pack("ledger 42"))).decode()
    'ledger 42'
    """
    return b64encode(zlib.compress(text.encode())).decode()


def _fitting(drawings: Iterable[tuple[str, str]], room: int) -> Iterator[tuple[str, str]]:
    for name, drawing in drawings:
        room -= len(drawing)
        if room < 0:
            return
        yield name, drawing
