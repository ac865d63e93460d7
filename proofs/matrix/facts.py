"""The facts that each report format states about one run, as values to compare.

A value is None if a format does not state it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
from prometheus_client.openmetrics import parser

from auditor.model.states import Verdict
from auditor.notebook.run import Run
from auditor.reports import first_screen
from auditor.reports.text import UNLIMITED_WIDTH

Counts = Mapping[tuple[str, ...], int]
Shares = Mapping[str, tuple[int, int]]
"""Pairs of (part, total) by name: checked ledgers, checked replicas and read bookies."""

SEVERITIES = ("critical", "error", "warning", "note")
VERDICTS = frozenset(Verdict)
_SHARE = re.compile(r"([\d,]+) of ([\d,]+)")
_SHARES_OF_TEXT = {
    "ledgers": r"^checked +([\d,]+ of [\d,]+) ledgers",
    "replicas": r"^checked .*; ([\d,]+ of [\d,]+) ledger copies",
    "bookies": r"^bookies +([\d,]+ of [\d,]+) read",
}


@dataclass(frozen=True)
class Facts:
    """The facts of one report.

    ``findings`` has the fingerprints of all findings, ``samples`` the fingerprints of some findings. ``full``
    counts findings by severity, id and confidence, ``by_check`` by severity and id, ``by_id`` by id.
    ``unsure`` counts unconfirmed findings by id.
    """

    verdict: str | None = None
    complete: bool | None = None
    findings: frozenset[str] | None = None
    samples: frozenset[str] | None = None
    full: Counts | None = None
    by_check: Counts | None = None
    by_id: Counts | None = None
    unsure: Counts | None = None
    shares: Shares | None = None
    gaps: int | None = None


def number(text: str) -> int:
    return int(text.replace(",", ""))


def count_rows(rows: Iterable[Mapping[str, Any]], *names: str) -> Counts:
    return Counter(tuple(str(row[name]) for name in names) for row in rows)


def sum_rows(rows: Iterable[Mapping[str, Any]], *names: str) -> Counts:
    """Sum the column ``count`` of rows by the named columns."""
    counts: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        counts[tuple(str(row[name]) for name in names)] += row["count"]
    return +counts


def of_rows(rows: list[dict[str, Any]]) -> Facts:
    """Return the facts of a format that lists every finding."""
    return Facts(
        findings=frozenset(row["fingerprint"] for row in rows),
        full=count_rows(rows, "severity", "id", "confidence"),
    )


def of_json(text: str) -> Facts:
    report = json.loads(text)
    coverage, tally = report["coverage"], report["run"]["tally"]
    return Facts(
        verdict=report["verdict"],
        samples=frozenset(finding["fingerprint"] for finding in report["findings"]),
        full=sum_rows(tally, "severity", "id", "confidence"),
        by_id={(id,): count for id, count in report["counts"].items()},
        shares={
            "ledgers": (coverage["ledgers"]["decided"], coverage["ledgers"]["total"]),
            "replicas": (coverage["replicas"]["decided"], coverage["replicas"]["expected"]),
            "bookies": (coverage["bookies"]["read"], coverage["bookies"]["expected"]),
        },
        gaps=len(report["run"]["gaps"]),
    )


def of_jsonl(text: str) -> Facts:
    return of_rows([json.loads(line) for line in text.splitlines()])


def of_csv(text: str) -> Facts:
    return of_rows(list(csv.DictReader(io.StringIO(text), strict=True)))


def of_parquet(data: bytes) -> Facts:
    return of_rows(pq.read_table(io.BytesIO(data)).to_pylist())


def of_sarif(text: str) -> Facts:
    [run] = json.loads(text)["runs"]
    rows = [
        {"id": row["ruleId"], "fingerprint": next(iter(row["fingerprints"].values())), **row["properties"]}
        for row in run["results"]
    ]
    properties = run["properties"]
    notes = [note["message"]["text"] for note in run["invocations"][0]["toolExecutionNotifications"]]
    listed = of_rows(rows)
    return Facts(
        verdict=properties["verdict"],
        complete=properties["complete"],
        findings=listed.findings,
        full=listed.full,
        by_id={(id,): count for id, count in properties["counts"].items()},
        gaps=sum(note.startswith("not read: ") for note in notes),
    )


def of_junit(text: str) -> Facts:
    suite = ET.fromstring(text).find("testsuite")
    assert suite is not None
    properties = {element.get("name", ""): element.get("value", "") for element in suite.iter("property")}
    full: Counter[tuple[str, ...]] = Counter()
    for case in suite.iter("testcase"):
        for part in (case.find("failure"), case.find("system-out")):
            for line in (part.text or "" if part is not None else "").splitlines():
                if match := re.match(rf"([\d,]+) ({'|'.join(SEVERITIES)}), (\w+)", line):
                    full[match[2], case.get("name", ""), match[3]] += number(match[1])
    shares = {
        name: _share(properties[f"{name} {how}"])
        for name, how in (("ledgers", "checked"), ("replicas", "checked"), ("bookies", "read"))
    }
    return Facts(verdict=properties["verdict"], full=full, shares=shares)


def of_markdown(text: str) -> Facts:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    counts = [row for row in rows if len(row) == 7 and row[0] in SEVERITIES]
    shares = {row[0]: _share(row[1]) for row in rows if row[0] in ("ledgers", "replicas", "bookies")}
    gaps = next((number(row[1].split()[0]) for row in rows if row[0] == "not read"), 0)
    head = re.search(r"^## BookKeeper audit: (.+)$", text, re.MULTILINE)
    assert head is not None
    return Facts(
        verdict=_verdict(head[1]),
        complete=not _is_incomplete(text),
        by_check=_added(((row[0], row[1]), number(row[2])) for row in counts),
        unsure=_summed((row[1], number(row[3])) for row in counts),
        shares=shares,
        gaps=gaps,
    )


def of_openmetrics(text: str) -> Facts:
    families = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    values = {family.name: family.samples for family in families}
    full = _added(
        ((sample.labels["severity"], sample.labels["id"], sample.labels["confidence"]), int(sample.value))
        for sample in values["bkaudit_findings"]
    )
    shares = {}
    for name in ("ledgers", "replicas", "bookies"):
        states = {sample.labels["state"]: int(sample.value) for sample in values[f"bkaudit_{name}"]}
        shares[name] = (states["read" if name == "bookies" else "decided"], sum(states.values()))
    return Facts(
        verdict=next(sample.labels["verdict"] for sample in values["bkaudit_verdict"] if sample.value),
        complete=values["bkaudit_run_complete"][0].value == 1,
        full=full,
        shares=shares,
        gaps=int(values["bkaudit_gaps"][0].value),
    )


def of_html(text: str) -> Facts:
    verdict = re.search(r'<h1 class="verdict ([a-z-]+)"', text)
    assert verdict is not None
    by_check: Counter[tuple[str, ...]] = Counter()
    unsure = []
    for row in re.findall(r'<tr role="row"><td role="cell" data-v="\d+"><span class="badge.*?</tr>', text):
        severity = re.search(r'class="badge (\w+)"', row)
        id = re.search(r'<td role="cell" class="nowrap">(?:<a [^>]*>)?([a-z-]+)', row)
        finding_count, doubtful = (
            re.search(rf'data-label="{label}" data-v="(\d+)"', row) for label in ("Findings", "Unconfirmed")
        )
        if severity and id and finding_count and doubtful:
            by_check[severity[1], id[1]] += int(finding_count[1])
            unsure.append((id[1], int(doubtful[1])))
    bars = re.search(r'<table class="bars">.*?</table>', text, re.DOTALL)
    shares = {
        label.lower(): (number(part), number(total))
        for label, part, total in re.findall(
            r'<th scope="row">(\w+)</th><td class="n">([\d,]+) of ([\d,]+) ', bars[0] if bars else ""
        )
    }
    return Facts(
        verdict=verdict[1],
        complete=not _is_incomplete(text),
        samples=frozenset(re.findall(r"fingerprint ([0-9a-f]{16})", text)),
        by_check=by_check,
        unsure=_summed(unsure),
        shares=shares,
    )


def of_text(text: str) -> Facts:
    """Return the facts on the first screen, whose lines must not be wrapped.

    Counts are None if the screen omits some checks.
    """
    lines = text.rstrip("\n").splitlines()
    last = verdict_line(lines)
    by_id: Counter[tuple[str, ...]] = Counter()
    unsure: list[tuple[str, int]] = []
    cut = False
    for line in lines:
        if not re.match(r"[a-z][a-z ]*  +[\d,]+   ", line):  # not a line of an urgency
            continue
        cut |= bool(re.search(r"[\d,]+ (more )?checks?(;|$)", line))
        for id, count, parts in re.findall(r"([a-z]+(?:-[a-z]+)+) ([\d,]+)(?: \(([^)]*)\))?", line):
            by_id[id,] += number(count)
            unsure += [(id, number(amount)) for amount in re.findall(r"([\d,]+) (?:suspect|unknown)", parts)]
    shares = {
        name: _share(match[1])
        for name, pattern in _SHARES_OF_TEXT.items()
        if (match := re.search(pattern, text, re.MULTILINE))
    }
    if only_metadata := re.search(r"^bookies +([\d,]+), none read", text, re.MULTILINE):
        shares["bookies"] = (0, number(only_metadata[1]))
    places = re.search(r"^not read   ([\d,]+) path", text, re.MULTILINE)
    return Facts(
        verdict=_verdict(last.partition(":")[0]),
        complete=not _is_incomplete(last),
        by_id=None if cut else by_id,
        unsure=None if cut else _summed(unsure),
        shares=shares,
        gaps=number(places[1]) if places else 0,
    )


def verdict_line(lines: Sequence[str]) -> str:
    """Return the line of the first screen with the verdict. Instructions may follow it."""
    return next(line for line in reversed(lines) if _verdict(line.partition(":")[0]) in VERDICTS)


def _verdict(word: str) -> str:
    """Return a verdict in the spelling of JSON reports."""
    return word.lower().replace(" ", "-")


def _is_incomplete(text: str) -> bool:
    words = r"not everything could be checked|everything unchecked is accepted"
    return bool(re.search(words, text, re.IGNORECASE))


def of_notebook(run: Run) -> Facts:
    frame = run.frames.by_id().reset_index()
    full = _added(
        ((row["severity"], row["id"], confidence), int(row[confidence]))
        for row in frame.to_dict("records")
        for confidence in ("confirmed", "suspect", "unknown")
    )
    screen = of_text(first_screen.render(run.report, run.path, UNLIMITED_WIDTH))
    cell = run._repr_html_()
    assert run.report.verdict.upper().replace("-", " ") in cell
    return Facts(
        verdict=run.report.verdict,
        complete=run.report.complete,
        findings=frozenset(finding.fingerprint for finding in run.findings),
        full=full,
        shares=screen.shares,
    )


PARSERS: Mapping[str, Callable[[str], Facts]] = {
    "text": of_text,
    "json": of_json,
    "jsonl": of_jsonl,
    "csv": of_csv,
    "markdown": of_markdown,
    "html": of_html,
    "sarif": of_sarif,
    "junit": of_junit,
    "openmetrics": of_openmetrics,
}


def _share(text: str) -> tuple[int, int]:
    match = _SHARE.search(text)
    assert match is not None, text
    return number(match[1]), number(match[2])


def _summed(pairs: Iterable[tuple[str, int]]) -> Counts:
    return _added(((id,), count) for id, count in pairs)


def _added(pairs: Iterable[tuple[tuple[str, ...], int]]) -> Counts:
    """Sum counts by key. A check and severity can have several rows, one for each urgency."""
    sums: Counter[tuple[str, ...]] = Counter()
    for key, count in pairs:
        sums[key] += count
    return +sums
