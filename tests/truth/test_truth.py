"""Every reader has foreign bytes, or a row with the reason why not, and the rows describe existing data."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from auditor.cli.decode import FILE_KINDS
from auditor.codecs.bookie import entry_log, index_file, journal
from auditor.codecs.ledger_metadata.batch import READER_BY_VERSION
from auditor.codecs.pulsar.managed_ledger import COMPRESSIONS
from auditor.reports.forms import FORMS
from auditor.sources.metadata.stores import STORES
from auditor.sources.owners.applications import APPLICATIONS
from tests.syntax import syntax_tree
from tests.truth.table import PAGE, ROOT, Format, count_of, formats, page, proofs

pytestmark = pytest.mark.files

HOUSE = ROOT / "auditor"
SOURCES = ("directories", "collections", "rpc")
VERSIONS = {
    "codecs/bookie/journal.py": range(1, journal.NEWEST_VERSION + 1),
    "codecs/bookie/index_file.py": range(index_file.NEWEST_VERSION + 1),
    "codecs/bookie/entry_log.py": range(entry_log.NEWEST_VERSION + 1),
    "codecs/bookie/entry.py": (1, 2),
    "codecs/bookie/wire.py": (2, 3),
    "codecs/bookie/cookie.py": (3, 4, 5),
    "codecs/store/layout.py": (1, 2),
    "codecs/ledger_metadata/one.py": tuple(READER_BY_VERSION),
    "codecs/pulsar/managed_ledger.py": tuple(COMPRESSIONS),
    "codecs/pulsar/log_segment.py": (1, 2, 3, 4, 5),
}
"""The versions of a format that its reader takes."""

MOST_WORDS_OF_A_PROOF = 70

BYTES = {"bytes", "memoryview", "BinaryIO", "ByteColumn", "Sequence[bytes]", "NDArray[np.uint8]"}
OPENS = {
    *("open", "pread", "preadv", "fromfile", "mmap", "read_text", "read_bytes", "open_input_file"),
    *("open_input_stream", "ParquetFile", "PyRocksDB", "KazooClient", "secure_channel", "insecure_channel"),
    *("create_connection", "connect", "open_regular", "open_descriptor", "read_regular"),
}


def takes_bytes(module: ast.Module) -> bool:
    """Return whether a public function of a codec takes bytes first, or has the name of a reader."""
    return any(
        (function.args.args and ast.unparse(function.args.args[0].annotation or function) in BYTES)
        or re.match("decode|parse|read|unpack|answer", function.name)
        for function in module.body
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_")
    )


def opens(module: ast.Module) -> bool:
    """Return whether a source opens files or connections."""
    calls = [node.func for node in ast.walk(module) if isinstance(node, ast.Call)]
    return bool(OPENS & {getattr(call, "attr", getattr(call, "id", "")) for call in calls})


def modules(floor: str, rule: object) -> set[str]:
    """Return the modules of a package for which a rule is true."""
    assert callable(rule)
    files = [path for path in (HOUSE / floor).rglob("*.py") if not path.name.endswith("_pb2.py")]
    return {str(path.relative_to(HOUSE)) for path in files if rule(syntax_tree(path))}


PRESENT_READERS = (
    modules("codecs", takes_bytes)
    # One opens for the others.
    | (modules("sources", opens) - {"sources/regular_file.py"})
    | {f"decode:{kind}" for kind in FILE_KINDS}
    | {f"metadata:{scheme}" for scheme in STORES}
    | {f"bookies:{source}" for source in SOURCES}
    | {f"owners:{application}" for application in APPLICATIONS}
    | {f"form:{form}" for form in FORMS}
)


def test_every_reader_has_a_row_and_every_row_a_reader() -> None:
    rows = {reader for row in formats() for reader in row.readers}
    assert not PRESENT_READERS - rows, "no row in tests/truth/formats.toml"
    assert not {name for name in rows - PRESENT_READERS if not (HOUSE / name).is_file()}, "no such reader"


@pytest.mark.parametrize("reader", VERSIONS)
def test_every_format_version_has_a_row(reader: str) -> None:
    versions = {version for row in formats() if reader in row.readers for version in row.versions}
    assert versions >= set(VERSIONS[reader]), f"{reader}: versions without a row"


@pytest.mark.parametrize("row", formats(), ids=lambda row: row.name)
def test_row_has_foreign_bytes_or_a_reason(row: Format) -> None:
    assert [row.is_foreign, *map(bool, (row.read_by, row.own, row.lacks))].count(True) == 1
    assert row.readers
    assert "not made" not in row.lacks, "what error did it give?"
    assert row.tests or not row.read_by
    if row.is_foreign:
        assert re.search(r"\d", row.writer), "which version?"
        assert not re.search("bkaudit|this project|by hand", row.writer)
        assert row.tests
    assert not [where for where in row.bytes if not count_of(where)], "nothing is there"
    assert not [test for test in row.tests if not is_existing_test(test)], "no such test"


def test_proof_has_a_figure_and_existing_tests() -> None:
    for proof in proofs():
        assert re.search(r"\d", proof.figure), proof.claim
        assert proof.tests
        assert not [test for test in proof.tests if not is_existing_test(test)], "no such test"
        assert {len(row) for row in proof.rows} <= {len(row) for row in proof.rows[:1]}, "rows of one length"
        assert {*proof.shown} <= {row[0] for row in proof.rows[1:]}, "no such row"
        assert {*proof.columns, proof.sum_by or "all"} <= {*proof.rows[0], "all"}, "no such column"


def test_the_page_has_a_short_paragraph_and_a_table_for_each_proof() -> None:
    entries = page().partition("## Proofs\n")[2].split("\n### ")[1:]
    assert len(entries) == len(proofs())
    for proof, entry in zip(proofs(), entries, strict=True):
        assert len(proof.figure.split()) <= MOST_WORDS_OF_A_PROOF, proof.claim
        assert entry.count("\n|---|") == 1, proof.claim


def is_existing_test(test: str) -> bool:
    file, _, name = test.partition("::")
    module = ROOT / file
    return module.is_file() and name in functions(module)


@pytest.mark.parametrize("row", [row for row in formats() if row.bytes], ids=lambda row: row.name)
def test_tests_of_a_row_name_its_data_directories(row: Format) -> None:
    modules: set[Path] = set()
    for test in row.tests:
        gather(ROOT / test.partition("::")[0], modules)
    text = "".join(module.read_text("utf-8") for module in modules)
    homes = {re.match("tests/data/([a-z-]*[a-z])|", where)[1] for where in row.bytes}  # type: ignore[index]
    assert not [home for home in homes if home and home not in text]


def gather(module: Path, test_modules: set[Path]) -> None:
    """Add a test module, its conftest, and the test modules that it imports to ``test_modules``."""
    if module in test_modules or not module.is_file():
        return
    test_modules.add(module)
    gather(module.parent / "conftest.py", test_modules)
    for name in re.findall(r"^from (tests\.[\w.]+) import", module.read_text("utf-8"), re.MULTILINE):
        gather(ROOT / f"{name.replace('.', '/')}.py", test_modules)


def functions(module: Path) -> set[str]:
    """Return the functions of a test module, and the names that it imports."""
    body = ast.parse(module.read_text("utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)} | {
        alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def test_format_names_are_unique() -> None:
    names = [row.name for row in formats()]
    assert len(names) == len({*names})


def test_golden_data_directory_has_a_readme() -> None:
    homes = [path for path in (ROOT / "tests" / "data").iterdir() if path.is_dir()]
    assert not [home.name for home in homes if not (home / "README.md").is_file()]


def test_truth_page_equals_generated_text() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m tests.truth > docs/truth.md"
