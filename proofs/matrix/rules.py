"""Rules for every cell. A rule yields a sentence for each violation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import accumulate
from typing import Any

from auditor.checks.finding_rows import FALLBACK_MESSAGE
from auditor.reports.plain_text import columns_of
from proofs.matrix.bench import Outcome, Row
from proofs.matrix.cells import NO_VALUE, Cell
from proofs.matrix.damage import Damage
from proofs.matrix.facts import Counts, Facts

CODES = frozenset((0, 1, 2, 3, 4, 5))
BUG = re.compile(
    r"Traceback \(most recent call last\)|\bPy4J|\[Errno|\bat org\.apache\.|"
    r"(?<![\w.$])[A-Z]\w*(?:Error|Exception)\b(?!\$| \(-?\d+\))"
)
"""A traceback or the name of an exception class. Full names of the server's own errors are allowed."""

NULL = re.compile(
    r"\b(?:None|null|nan|NaN|NaT|undefined)\b|(?:^|[\s(;:,=])\?(?=$|[\s);:,.])|, copies each\b|"
    + FALLBACK_MESSAGE
)
"""Texts that a null becomes in a sentence."""

PICTURE = re.compile(r"\? unknown|^\S+ +[^\w ]+$")
"""Lines of the picture of a ledger."""

COMMAND = re.compile(r"\b(?:bkaudit|bookkeeper|zkCli|etcdctl|pulsar|pulsar-admin|curl|systemctl)\b")
"""Lines with commands, which are not wrapped so that a user can copy them."""

IN_DOUBT = re.compile(r"\b(in doubt|not sure|unconfirmed)\b", re.IGNORECASE)
COPY_CLASSES = frozenset(("entry-lost", "below-ack-quorum", "below-write-quorum"))
OF_COVERAGE = frozenset(
    ("bookie-unread", "replication-undecided", "on-unregistered-bookie", "bookie-without-location")
)
"""Check ids about unread data. A run that reads more need not report them."""

COMPACTED = "compacted"
"""A kind of owner that the last entry of a cursor's ledger names. All bookies of the ledger must show it."""

NOTICED = frozenset(("empty", "cut", "foreign", "unreadable"))
"""Kinds of damage that every reader must notice."""


def no_bug(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Check that every command ends with a documented exit code and prints no exception class."""
    for outcome in outcomes:
        if outcome.exit_code not in CODES:
            last = outcome.stderr.strip().splitlines()[-3:]
            yield f"exit code {outcome.exit_code} of {outcome.command}: {' | '.join(last)}"
            continue
        for line in (outcome.stdout + "\n" + outcome.stderr).splitlines():
            if BUG.search(line) and not line.startswith("{"):
                yield f"names a class of the program, {outcome.command}: {_short(line)}"
                break


def ends(outcome: Outcome, damaged: bool) -> Iterator[str]:
    """Check that an audit has a result. It may end without one only if the metadata are damaged."""
    if outcome.exit_code not in ((0, 1, 3, 4, 5) if damaged else (0, 1, 3)):
        yield f"ends with {outcome.exit_code}: {_short(outcome.stderr.strip()[-240:])}"


def no_nulls(findings: Iterable[Row], outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Check that no message and no line contains a null, except in JSON, CSV and an HTML page's script."""
    for row in findings:
        if match := NULL.search(row["message"]):
            yield f"{row['id']} has {match[0].strip()!r} in its message: {_short(row['message'])}"
    for outcome in outcomes:
        if outcome.writes("html"):
            continue
        for line in (outcome.stdout + "\n" + outcome.stderr).splitlines():
            if outcome.writes("json") and line.strip(" ,") == "null":
                continue  # null in a JSON list
            if line.lstrip()[:1] in ("{", "}", '"', "[", "]") or PICTURE.search(line):
                continue
            if match := NULL.search(line):
                yield f"{match[0].strip()!r} in a line of {outcome.command}: {_short(line)}"
                break


def no_sure_doubt(findings: Iterable[Row]) -> Iterator[str]:
    """Check that no confirmed finding states a doubt."""
    for row in findings:
        if row["confidence"] != "confirmed":
            continue
        doubts = json.loads(row["evidence"]).get("doubts")
        counted = re.search(r"\d+ of these ledgers are unconfirmed", row["message"])
        if doubts or (IN_DOUBT.search(row["message"]) and not counted):
            yield f"{row['id']} is confirmed and in doubt ({doubts or 'message'}): {_short(row['message'])}"


def never_less(base_rows: Sequence[Row], full_rows: Sequence[Row], what: str) -> Iterator[str]:
    """Check that an audit that reads more is not less certain.

    A run that reads more must confirm or suspect everything that a run that reads less confirms.
    """
    by_fingerprint = {row["fingerprint"]: row for row in full_rows}
    about = {_about(row) for row in full_rows if row["id"] in COPY_CLASSES}
    for row in base_rows:
        if row["confidence"] != "confirmed" or row["id"] in OF_COVERAGE:
            continue
        if row["id"] in COPY_CLASSES and _about(row) in about:
            continue
        match = by_fingerprint.get(row["fingerprint"])
        if match is None and row["id"] == "mark-stuck" and _is_stale(row["ledger_id"], full_rows):
            continue  # an audit that reads its copies reports it as healthy
        if match is None:
            yield f"{what} loses {row['id']}: {_short(row['message'])}"
        elif match["confidence"] == "unknown":
            yield f"{what} knows less of {row['id']}: {_short(row['message'])}"


def never_good_unseen(outcomes: Iterable[Outcome], gaps: bool) -> Iterator[str]:
    """Check the answers of ``decommission``, ``simulate`` and ``plan check``.

    No bookie may be decommissioned while a part of the metadata is unread. The certain effect of a failure
    must be within its possible effect. A plan must be valid for the run it was made of.
    """
    for outcome in outcomes:
        if outcome.arguments[0] == "decommission" and outcome.exit_code == 0 and gaps:
            yield f"metadata has gaps, and the answer is that they may go: {outcome.command}"
        if outcome.arguments[:2] == ("plan", "check") and outcome.exit_code == 1:
            yield f"its own run says that a plan is no longer true: {outcome.command}"
        if outcome.arguments[0] == "simulate" and outcome.exit_code == 0 and outcome.writes("json"):
            for sure, possible in _bounds(json.loads(outcome.stdout)):
                if any(low > high for low, high in zip(sure, possible, strict=True)):
                    yield f"surely {sure}, at worst {possible}: {outcome.command}"


def _bounds(value: Any) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield all pairs of certain and possible effects in JSON.

    An effect counts lost entries, entries below ack quorum or worse, entries below write quorum or worse,
    and unrecoverable ledgers.
    """
    if isinstance(value, dict) and "possible" in value:
        bounds = []
        for outcome in (value["sure"], value["possible"]):
            entries = (outcome[name]["entries"] for name in ("lost", "below_ack", "below_write"))
            bounds.append((*accumulate(entries), outcome["unrecoverable"]))
        yield bounds[0], bounds[1]
    elif isinstance(value, dict | list):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _bounds(element)


def _is_stale(ledger: int, findings: Iterable[Row]) -> bool:
    """Return whether a finding lists the ledger as marked but healthy."""
    samples = (json.loads(row["evidence"])["sample"] for row in findings if row["id"] == "mark-stale")
    return any(str(ledger) in sample for sample in samples)


def forms_agree(forms: Mapping[str, Facts], findings: Sequence[Row]) -> Iterator[str]:
    """Check that all report formats state the same facts."""
    widened = {name: _widened(facts) for name, facts in forms.items()}
    for field in fields(Facts):
        if field.name == "samples":
            continue
        values = {name: getattr(facts, field.name) for name, facts in widened.items()}
        values = {name: value for name, value in values.items() if value is not None}
        for name, value in values.items():
            first, expected = next(iter(values.items()))
            if field.name == "shares":  # without bookies the first screen has no replicas
                common_keys = value.keys() & expected.keys()
                value, expected = ({key: side[key] for key in common_keys} for side in (value, expected))
            if _plain(value) != _plain(expected):
                yield f"{field.name} of {name} is not that of {first}: {_differ(value, expected)}"
    everything = {row["fingerprint"] for row in findings}
    for name, facts in forms.items():
        if facts.findings is not None and facts.findings != everything:
            yield f"findings of {name} are not those of the run: {len(facts.findings)} of {len(everything)}"
        if facts.samples is not None and not facts.samples <= everything:
            yield f"{name} shows findings that the run does not have"


def blind_is_not_passed(blind: Iterable[str], passed: Iterable[str]) -> Iterator[str]:
    """Check that no check without data counts as passed."""
    if overlap := {*blind} & {*passed}:
        yield f"blind altogether and passed: {', '.join(sorted(overlap))}"


def accuses(
    damage: Damage, plain: Sequence[Row], damaged: Sequence[Row], ledger_members: Mapping[int, Iterable[str]]
) -> Iterator[str]:
    """Check that damage neither adds nor removes findings about undamaged parts.

    Args:
        damage: The damaged parts.
        plain: The findings without damage.
        damaged: The findings with damage.
        ledger_members: The bookies of each ledger's ensembles.
    """
    before = {row["fingerprint"]: row for row in plain}
    after = {row["fingerprint"]: row for row in damaged}
    for row in damaged:
        earlier = before.get(row["fingerprint"])
        same = earlier is not None and (earlier["severity"], earlier["confidence"]) == (
            row["severity"],
            row["confidence"],
        )
        if not same and not _concerns(row, damage, ledger_members) and _worse(row, earlier):
            yield f"accuses what is sound: {row['id']} ({row['confidence']}): {_short(row['message'])}"
        lacking = {part["bookie_id"]: part["count"] for part in row["missing"]}
        old_counts = {part["bookie_id"]: part["count"] for part in (earlier or {"missing": []})["missing"]}
        for bookie in lacking.keys() - damage.bookies if damage.bookies else ():
            if row["confidence"] == "confirmed" and lacking[bookie] > old_counts.get(bookie, 0):
                peers = [peer for peer in plain if _about(peer) == _about(row)]
                if not any(bookie == part["bookie_id"] for peer in peers for part in peer["missing"]):
                    yield f"{row['id']}: {bookie}, which is sound, lacks entries: {_short(row['message'])}"
    for row in plain:
        is_hidden = row["fingerprint"] not in after and row["confidence"] == "confirmed"
        if is_hidden and row["id"] not in OF_COVERAGE and not _concerns(row, damage, ledger_members):
            changed = any(_about(peer) == _about(row) and peer["id"] in COPY_CLASSES for peer in damaged)
            if not (row["id"] in COPY_CLASSES and changed):
                yield f"hides {row['id']} of what is sound: {_short(row['message'])}"


def notices(kind: str, plain: object, damaged: object) -> Iterator[str]:
    """Check that obvious damage changes something in the report."""
    if kind in NOTICED and plain == damaged:
        yield "says nothing of the damage"


def fits(width: int, printed: Mapping[str, str], counts: Counts, verdict: str) -> Iterator[str]:
    """Check that only commands are wider than the terminal, and that the first screen is complete.

    The first screen must have all critical findings, the verdict, and errors unless it states that it cut
    some.
    """
    for name, text in printed.items():
        for line in text.splitlines():
            words = line.split()
            # In a pipe a table does not cut names, so a path can make its column too wide.
            folded = columns_of(" ".join(word for word in words if not word.startswith("/")))
            has_table = name.startswith("simulate ")
            columns = folded if has_table else columns_of(line)
            if columns > width and not COMMAND.search(line) and len(words) > 2:
                yield f"{name} has a line of {columns_of(line)} columns: {_short(line)}"
                break
    screen = " ".join(printed.get("screen", "").split())
    if screen:
        for (severity, id), count in counts.items():
            # A check with findings of several urgencies is in the line of each urgency.
            shown = re.findall(rf"(?<![\w-]){id} ([\d,]+)", screen)
            # The screen may only count the checks whose errors are not urgent.
            cut = severity != "critical" and re.search(r"\d more checks?\b|, of [\d,]+ checks?\b", screen)
            if (
                severity in ("critical", "error")
                and not cut
                and sum(int(number.replace(",", "")) for number in shown) < count
            ):
                yield f"the first screen cuts {severity} {id} {count:,}"
        if " ".join(verdict.split()) not in screen:
            yield f"the first screen cuts the verdict: {screen[-100:]}"


def _worse(row: Row, earlier: Row | None) -> bool:
    """Return whether a finding is new, or more certain than before."""
    if earlier is None:
        return row["id"] not in OF_COVERAGE
    rank = {"confirmed": 0, "suspect": 1, "unknown": 2}
    return rank[row["confidence"]] < rank[earlier["confidence"]]


def _concerns(row: Row, damage: Damage, members: Mapping[int, Iterable[str]]) -> bool:
    """Return whether the damage can be the cause of a finding."""
    if damage.whole and row["confidence"] != "confirmed":
        return True
    if row["bookie_id"] is not None and row["bookie_id"] in damage.names:
        return True
    text = f"{row['message']} {row['evidence']} {row['bookie_id']} {row['missing']} {row['unknown']}"
    if row["ledger_id"] is not None:
        if row["ledger_id"] in damage.ledgers or {*members.get(row["ledger_id"], ())} & damage.bookies:
            return True
    elif damage.ledgers and row["confidence"] != "confirmed":
        return True
    if any(bookie in text for bookie in damage.bookies):
        return True
    evidence = json.loads(row["evidence"])
    if damage.bookies and evidence.get("kind") == COMPACTED:
        return True
    sample = {int(value) for value in evidence.get("sample", ()) if str(value).lstrip("-").isdecimal()}
    if sample & damage.ledgers or any({*members.get(value, ())} & damage.bookies for value in sample):
        return True
    if any(re.search(rf"\b{ledger}\b", text) for ledger in damage.ledgers):
        return True
    return damage.whole and (row["id"].startswith("metadata-") or row["ledger_id"] is None)


def _about(row: Row) -> tuple[Any, ...]:
    return row["scope_id"], row["ledger_id"]


def _widened(facts: Facts) -> Facts:
    """Add the coarser counts that follow from finer ones."""
    full, by_check, by_id, unsure = facts.full, facts.by_check, facts.by_id, facts.unsure
    if full is not None:
        by_check = by_check if by_check is not None else summed(full, lambda key: key[:2])
        doubtful = {key: count for key, count in full.items() if key[2] != "confirmed"}
        unsure = unsure if unsure is not None else summed(doubtful, lambda key: key[1:2])
    if by_check is not None and by_id is None:
        by_id = summed(by_check, lambda key: key[1:2])
    return replace(facts, by_check=by_check, by_id=by_id, unsure=unsure)


def summed(counts: Counts, key: Any) -> Counts:
    """Sum counts under coarser keys. ``key`` maps a key to its coarser key."""
    sums: dict[tuple[str, ...], int] = {}
    for name, count in counts.items():
        sums[key(name)] = sums.get(key(name), 0) + count
    return sums


def _plain(value: Any) -> Any:
    return {key: count for key, count in value.items() if count != 0} if isinstance(value, Mapping) else value


def _differ(first: Any, second: Any) -> str:
    if isinstance(first, Mapping):
        keys = sorted(key for key in {*first, *second} if first.get(key) != second.get(key))
        return "; ".join(f"{key}: {first.get(key)} / {second.get(key)}" for key in keys[:4])
    if isinstance(first, frozenset):
        return f"{len(first - second)} more, {len(second - first)} less"
    return f"{first} / {second}"


def _short(text: str) -> str:
    return text if len(text) <= 240 else f"{text[:240]}..."


def is_spoilt(cell: Cell) -> bool:
    """Return whether the audit of a cell reads the damaged part."""
    return cell.damage != NO_VALUE and cell.target != "run"
