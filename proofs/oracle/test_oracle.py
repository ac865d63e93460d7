"""The oracle has a fault for every check, its published table has all checks, and its scores are correct."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from auditor.checks import CHECK_BY_ID
from proofs.oracle.ledgers import EDITS
from proofs.oracle.owners import FAULTS
from proofs.oracle.plants import HEAD, Plants, empty_scores, score
from tests.truth.table import Proof, proofs

PACKAGE_DIR = Path(__file__).parent


def planted() -> set[str]:
    """Return the checks for which the scenes plant a fault, from their source code."""
    calls = [
        node
        for file in PACKAGE_DIR.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in WORDS
    ]
    checks = {call.args[0].value for call in calls if call.args and isinstance(call.args[0], ast.Constant)}
    return {*map(str, checks), *EDITS, *(fault["expect"] for fault in FAULTS)} - {"none"}


WORDS = ("plant", "planted")


def test_scenes_plant_a_fault_for_every_check() -> None:
    assert planted() == set(CHECK_BY_ID)


def published_proof() -> Proof:
    [proof] = [proof for proof in proofs() if proof.command == "python -m proofs.oracle"]
    return proof


def test_published_table_has_every_check_with_full_recall_and_no_false_finding() -> None:
    head, *rows = published_proof().rows
    assert tuple(head) == HEAD
    by_check = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert by_check.keys() == CHECK_BY_ID.keys()
    assert {check for check, row in by_check.items() if row["recall"] != "1.00"} == set()
    assert {check for check, row in by_check.items() if row["false"] != "0"} == set()


def finding(check: str, ledger: int | None, confidence: str = "confirmed") -> dict[str, Any]:
    return {"id": check, "ledger_id": ledger, "bookie_id": None, "confidence": confidence, "message": "why"}


@pytest.mark.parametrize(
    ("findings", "cells", "wrong"),
    [
        ([], ("0", "0", "0", "0", "0", "0", "-", "0.00"), ["overlooked: ('entry-lost', 1, None): rm"]),
        ([finding("entry-lost", 1)], ("1", "0", "0", "0", "0", "0", "1.00", "1.00"), []),
        ([finding("entry-lost", 1, "suspect")], ("0", "1", "0", "0", "0", "0", "1.00", "1.00"), []),
        (
            [finding("entry-lost", 1), finding("entry-lost", 2), finding("entry-lost", 3)],
            ("1", "0", "0", "1", "1", "0", "0.67", "1.00"),
            ["false (confirmed): ('entry-lost', 3, None): why"],
        ),
        (
            [finding("entry-lost", 1), finding("entry-lost", 3, "suspect")],
            ("1", "0", "0", "0", "0", "1", "0.50", "1.00"),
            ["false (suspect): ('entry-lost', 3, None): why"],
        ),
    ],
)
def test_score_counts_found_consequent_false_and_overlooked_findings(
    findings: list[dict[str, Any]], cells: tuple[str, ...], wrong: list[str]
) -> None:
    plants, scores = Plants(), empty_scores()
    plants.plant("entry-lost", "rm", 1)
    plants.follows("entry-lost", ledgers=(2,))
    assert score(plants, findings, scores) == wrong
    assert scores["entry-lost"].row("entry-lost") == ("entry-lost", "rm", "1", *cells)
