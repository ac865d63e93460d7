"""Variables and arguments are named after their content, not by pronouns, participles or adverbs."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import pytest

from tests.syntax import syntax_tree

pytestmark = pytest.mark.files

ROOT = Path(__file__).parents[1]
FOLDERS = ("auditor", "jobs", "benchmarks")
TEST_FOLDERS = ("tests", "proofs")
SCRIPT = "run.py"
MAX_VAGUE_SHARE = 0.01
"""Published names and words of Spark, click and Python stay, so that the share is not zero."""
MODULES_SHOWN = 10

VAGUE_WORDS = frozenset((
    "each", "found", "said", "told", "wanted", "held", "taken", "given", "kept", "left", "gone",
    "known", "seen", "heard", "asked", "made", "named", "whose", "either", "other", "others",
    "rest", "some", "every", "none", "one", "of", "at", "here", "there", "beside", "besides",
    "alike", "alone", "together", "apart", "now", "further", "more", "both", "mine", "theirs",
    "its", "lot", "lots", "item", "items", "elem", "obj", "thing", "stuff", "tmp", "val",
))  # fmt: skip
"""Words that say nothing of what a variable holds."""


def assigned_names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a module assigns, binds, or takes as an argument, once for each place."""
    for node in ast.walk(tree):
        yield from bound_names(node)


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the name that this node itself binds, if it binds one."""
    match node:
        case (
            ast.Name(id=name, ctx=ast.Store())
            | ast.Attribute(attr=name, ctx=ast.Store())
            | ast.arg(arg=name)
            | ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            yield name


def is_vague(name: str) -> bool:
    """Return whether a name is on the list, regardless of its underscores and its case."""
    return name.strip("_").lower() in VAGUE_WORDS


def source_files() -> list[Path]:
    """Return every Python file of the product and of the benchmarks."""
    return [*_python_files(FOLDERS), ROOT / SCRIPT]


def _python_files(folders: Sequence[str]) -> list[Path]:
    return [*chain.from_iterable(sorted((ROOT / folder).rglob("*.py")) for folder in folders)]


def worst_modules(vague: Mapping[str, list[str]]) -> str:
    """Return a line for each module with the most vague names, listing these names."""
    worst = sorted(vague.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return "\n".join(
        f"{len(names)} in {path}: {_counts(names)}" for path, names in worst[:MODULES_SHOWN] if names
    )


def _counts(names: list[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


@pytest.mark.parametrize("files", [source_files(), _python_files(TEST_FOLDERS)], ids=["product", "tests"])
def test_assigned_names_are_rarely_vague(files: list[Path]) -> None:
    names = {str(path.relative_to(ROOT)): [*assigned_names(syntax_tree(path))] for path in files}
    vague = {path: [name for name in of_module if is_vague(name)] for path, of_module in names.items()}
    total, vague_total = (sum(map(len, by_module.values())) for by_module in (names, vague))
    assert vague_total <= MAX_VAGUE_SHARE * total, (
        f"names that say nothing: {vague_total:,} of {total:,}, at most {MAX_VAGUE_SHARE:.0%}. "
        f"Call each variable after what it holds. The modules with the most:\n{worst_modules(vague)}"
    )


def test_all_folders_are_counted() -> None:
    counted = {path.relative_to(ROOT).parts[0] for path in source_files()}
    assert counted == {*FOLDERS, SCRIPT}


MADE_SOURCE = """
def function(found, /, said, *told, wanted=1, **held):
    taken: int = 1
    given += 1
    self.kept = left = [gone for known, (seen, *heard) in pairs]
    for asked in (made := named):
        pass
    with open(path) as whose:
        pass
    try:
        pass
    except Error as either:
        pass
    match subject:
        case [other, *others]:
            pass
        case {"key": rest, **some}:
            pass
        case Class(every) as none:
            pass
    return lambda one: of
"""


def test_assigned_names_include_every_kind_of_binding() -> None:
    names = Counter(assigned_names(ast.parse(MADE_SOURCE)))
    # Not "named", "gone" and "of", which are only read.
    assert names == Counter((
        "found", "said", "told", "wanted", "held", "taken", "given", "kept", "left", "known", "seen", "heard",
        "asked", "made", "whose", "either", "other", "others", "rest", "some", "every", "none", "one",
    ))  # fmt: skip


@pytest.mark.parametrize("name", ["each", "_each", "EACH", "__Held_", "its"])
def test_vague_words_match_regardless_of_underscores_and_case(name: str) -> None:
    assert is_vague(name)


@pytest.mark.parametrize("name", ["ledger", "each_ledger", "founder", "is_known", "_", "others_count"])
def test_name_that_only_contains_a_vague_word_is_not_vague(name: str) -> None:
    assert not is_vague(name)


def test_message_lists_modules_with_most_vague_names() -> None:
    vague = {"a.py": ["each"], "b.py": ["found", "each", "found"], "c.py": []}
    assert worst_modules(vague) == "3 in b.py: found 2, each 1\n1 in a.py: each 1"
    many = {f"{number:02}.py": ["each"] for number in range(MODULES_SHOWN + 1)}
    assert worst_modules(many).count("\n") == MODULES_SHOWN - 1
