"""Each name has one meaning: public names that two modules define, and the reasons why they may."""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.test_house import MODULES, floor_of, parsed

SAME_MEANING = {
    **dict.fromkeys(("decode", "parse", "text"), "bytes or words to values, each module its own format"),
    **dict.fromkeys(("decode_header", "read_log", "read_logs", "read_windows"), "the same of another format"),
    **dict.fromkeys(("render",), "a report in the form that the module is called after"),
    **dict.fromkeys(("to_json", "to_csv"), "a value as JSON or CSV"),
    **dict.fromkeys(("from_path", "to_path", "ledger_ids"), "keys, by layout"),
    **dict.fromkeys(("build_index", "count_ledgers", "probe", "recognise"), "stores, each its own"),
    **dict.fromkeys(("register",), "a door that Spark opens by this name"),
    **dict.fromkeys(("instance_id_missing",), "the rule, and the check that reports it"),
}
"""Names of one meaning for several kinds of thing: a caller says which by the module."""


def public(kind: type[ast.stmt] | tuple[type[ast.stmt], ...]) -> Counter[str]:
    """Count the modules in which each public name is defined."""
    return Counter(
        name
        for module in MODULES
        # Functions of `auditor.cli` are called after the command that they are.
        if kind is ast.ClassDef or floor_of(module) != "cli"
        for name in {
            node.name
            for node in parsed(module).body
            if isinstance(node, kind)
            and isinstance(node, (ast.ClassDef, ast.FunctionDef))
            and not node.name.startswith("_")
        }
    )


def test_no_two_types_have_one_name() -> None:
    assert [name for name, count in public(ast.ClassDef).items() if count > 1] == []


def test_no_two_functions_of_one_name_have_different_meanings() -> None:
    twice = {name for name, count in public(ast.FunctionDef).items() if count > 1}
    assert sorted(twice - SAME_MEANING.keys()) == []


def test_every_allowed_duplicate_name_is_duplicated() -> None:
    twice = {name for name, count in public(ast.FunctionDef).items() if count > 1}
    assert SAME_MEANING.keys() <= twice


PARTICIPLE_TABLES = {"judged"}
"""Modules called after the published table that they make."""


def test_no_module_name_is_a_bare_participle() -> None:
    """A participle does not name its object: ``accepted_gaps`` does, ``accepted`` does not."""
    participle = re.compile(r"[a-z]+ed|found|told|shown|seen|made|held")
    bare = {module.stem for module in MODULES if participle.fullmatch(module.stem)}
    assert bare - {"wellformed"} == PARTICIPLE_TABLES  # an adjective of XML's, not what was done to it
