"""Renderers of a comparison of two metadata stores: text, one JSON object, and JSON lines."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from auditor.model.amounts import and_more
from auditor.model.comparison import Comparison, CopyState, StoreDifference, StoreItem
from auditor.model.ledger_id import LedgerId
from auditor.model.report import EXIT_CLEAN, EXIT_FOUND
from auditor.reports.diff import with_decimal_ids
from auditor.reports.layout import NameTable, name_table_lines
from auditor.reports.plain_text import fold_text, labelled_lines, printable

COMPARISON_SCHEMA = "bookkeeper-auditor/comparison/2"
MAX_DIFFERENCES_SHOWN = 10
"""Largest number of differences shown for each kind and change. Counts include those that are not shown."""

CHANGE_TITLES = {
    CopyState.MISSING: "missing: in the source, but not in the copy",
    CopyState.DIFFERENT: "different: in both, with different contents",
    CopyState.EXTRA: "extra: only in the copy",
    CopyState.UNDECIDED: "undecided: not read, or changed during the comparison",
}
WIDTH = 100


def comparison_text(
    comparison: Comparison, shown_differences: Sequence[StoreDifference], width: int = WIDTH
) -> str:
    """Return the text for a terminal: both stores, counts, differences, and the verdict.

    ``shown_differences`` has samples of the differences (`MAX_DIFFERENCES_SHOWN`).
    """
    lines = []
    for name, store_summary in (("source", comparison.source), ("copy", comparison.copy)):
        store_text = f"{printable(store_summary.uri)}, {store_summary.layout}, at {store_summary.position}"
        lines += labelled_lines(name, store_text, width, columns=8)
    column_titles = ("", "source", "copy", "same", *CopyState)
    rows = [
        (str(tally.item), *(f"{item_count:,}" for item_count in (tally.source, tally.copy, tally.same)),
         *(f"{tally.changes[change]:,}" for change in CopyState))
        for tally in comparison.tallies
    ]  # fmt: skip
    lines += ["", *name_table_lines(NameTable(column_titles, rows), width)]
    for change in CopyState:
        if not comparison.count(change):
            continue
        lines += ["", CHANGE_TITLES[change]]
        differences = [difference for difference in shown_differences if difference.change is change]
        for shown_difference in differences:
            lines += fold_text(_difference_line(shown_difference), width, "  ", "      ")
        lines += and_more(comparison.count(change) - len(differences), "; --format jsonl lists all", "  ")
    lines += [""] if comparison.gaps or comparison.notes else []
    for label, texts in (("not read", comparison.gaps), ("note", comparison.notes)):
        for text in texts:
            lines += labelled_lines(label, printable(text), width, columns=10)
    return "\n".join([*lines, "", *fold_text(comparison_verdict(comparison), width)])


def comparison_json(comparison: Comparison, shown_differences: Sequence[StoreDifference]) -> str:
    """Return one JSON object: both stores, complete counts, and the differences in ``shown_differences``."""
    comparison_object = {
        "schema": COMPARISON_SCHEMA,
        "source": asdict(comparison.source),
        "copy": asdict(comparison.copy),
        "verdict": _verdict_text(comparison),
        "tallies": [asdict(tally) for tally in comparison.tallies],
        "gaps": list(comparison.gaps),
        "notes": list(comparison.notes),
        "samples": [with_decimal_ids(difference) for difference in shown_differences],
    }
    return json.dumps(comparison_object, indent=2, ensure_ascii=False)


def comparison_lines(differences: Iterable[StoreDifference]) -> Iterator[str]:
    """Yield one JSON line for each difference. Ledger ids are decimal strings."""
    for difference in differences:
        yield json.dumps(with_decimal_ids(difference), ensure_ascii=False, separators=(",", ":"))


def comparison_verdict(comparison: Comparison) -> str:
    """Return the last line of the text: the verdict with the number of differences."""
    counts = [f"{comparison.count(change):,} {change}" for change in CopyState if comparison.count(change)]
    gap_texts = [f"{len(comparison.gaps):,} paths not read"] if comparison.gaps else []
    summary_text = ", ".join(counts + gap_texts)
    verdict_text = _verdict_text(comparison).upper()
    return (
        f"{verdict_text}: {summary_text}"
        if summary_text
        else f"{verdict_text}: the copy has exactly the same contents as the source"
    )


def _verdict_text(comparison: Comparison) -> str:
    return {EXIT_CLEAN: "same", EXIT_FOUND: "different"}.get(comparison.exit_code, "incomplete")


def _difference_line(difference: StoreDifference) -> str:
    name = str(difference.item)
    if difference.item is StoreItem.LEDGER and difference.ledger_id is not None:
        name = LedgerId(difference.ledger_id, difference.scope_id or 0).full_display_name
    detail_texts = [*difference.fields, *([difference.why] if difference.why else [])]
    subject = f"{name} {printable(difference.path)}"
    return f"{subject}: {printable('; '.join(detail_texts))}" if detail_texts else subject
