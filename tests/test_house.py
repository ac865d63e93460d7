"""Rules for the code and the documents of this repository."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

from auditor.checks import ALL_CHECKS, SECTIONS
from auditor.cli import COMMAND_HELP_TEXTS
from tests.house import Repo, read_tree
from tests.made_runs import made_run
from tests.syntax import syntax_tree

pytestmark = pytest.mark.files

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "auditor"
MODULE_LINES = 400

SPARK_WHEN_CALLED = (
    "checks",
    "findings",
    "actions",
    "tables",
    "notebook",
    "audit",
    "watch",
    "compare",
    "doctor",
    "demo",
    "cli",
    "jobs",
)
GENERATED = HOUSE / "codecs" / "protobuf" / "pb"

LONGEST_FUNCTION = 60
MODULES = sorted(path for path in HOUSE.rglob("*.py") if GENERATED not in path.parents)
FOLDERS = (HOUSE, *(ROOT / name for name in ("jobs", "conf", "schemas", "benchmarks", ".ci")))
SUFFIXES = ("py", "md", "toml", "conf", "properties", "json", "proto")
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [
    *sorted(path for folder in FOLDERS for suffix in SUFFIXES for path in folder.rglob(f"*.{suffix}")),
    *DOCUMENTS,
    *(ROOT / name for name in ("run.py", "pyproject.toml", ".ci/run")),
]


def floor_of(module: Path) -> str:
    return module.relative_to(HOUSE).parts[0].removesuffix(".py")


def module_path(module: Path) -> str:
    return str(module.relative_to(HOUSE))


def imported(nodes: list[ast.AST]) -> set[str]:
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@cache
def parsed(module: Path) -> ast.Module:
    """Return the syntax tree of the unchanged module; several tests read it."""
    return syntax_tree(module)


@cache
def imported_anywhere(module: Path) -> set[str]:
    """Return the modules that a module imports at any time, or for type checkers alone."""
    return imported(list(ast.walk(parsed(module))))


def import_time_nodes(module: Path) -> list[ast.AST]:
    """Return the statements that run at import: not function bodies, and not those for type checkers."""
    nodes: list[ast.AST] = []
    waiting: list[ast.AST] = [parsed(module)]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return nodes


def test_layering_contracts_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """pyproject.toml defines them: the order of packages, no cycles among parts, packages without Spark."""
    is_broken = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert not is_broken, capsys.readouterr().out


def test_no_module_imports_itself_indirectly() -> None:
    """Imports in functions count too. The public module imports all packages, for type checkers alone."""
    for is_run_time, surface in ((True, set()), (False, {"auditor"})):
        graph = grimp.build_graph("auditor", exclude_type_checking_imports=is_run_time, cache_dir=None)
        modules = graph.modules - surface
        assert len(modules) >= len(MODULES) - len(surface)
        TopologicalSorter(
            {module: graph.find_modules_directly_imported_by(module) - surface for module in modules}
        ).prepare()


def test_no_test_imports_a_proof() -> None:
    """Proofs import the harness of the tests; tests never import proofs."""
    folders = [ROOT / name for name in ("auditor", "jobs", "benchmarks", "tests")]
    modules = [module for folder in folders for module in sorted(folder.rglob("*.py"))]
    assert len(modules) > len(MODULES) + 300
    assert [
        str(module.relative_to(ROOT))
        for module in modules
        if any(name.split(".")[0] == "proofs" for name in imported_anywhere(module))
    ] == []


def test_spark_is_not_imported_at_module_level() -> None:
    lazy = [module for module in MODULES if floor_of(module) in SPARK_WHEN_CALLED]
    assert [
        module_path(module)
        for module in lazy
        if any(name.split(".")[0] == "pyspark" for name in imported(import_time_nodes(module)))
    ] == []


def test_no_function_is_longer_than_sixty_lines() -> None:
    """The docstring does not count, because the docstring of a check is its manual page."""
    lengths = {
        f"{module_path(module)}: {node.name}": sum(
            (part.end_lineno or 0) - part.lineno + 1 for part in node.body[bool(ast.get_docstring(node)) :]
        )
        for module in MODULES
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.FunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_module_is_short_and_has_a_docstring() -> None:
    lengths = {module_path(module): len(module.read_text("utf-8").splitlines()) for module in MODULES}
    assert {name: length for name, length in lengths.items() if length > MODULE_LINES} == {}
    assert [module_path(module) for module in MODULES if not ast.get_docstring(parsed(module))] == []
    assert not {module.name for module in MODULES} & {"utils.py", "helpers.py", "common.py", "misc.py"}


UNWANTED_MODULES = {
    "import auditor": ("pyspark", "pandas", "pyarrow", "numpy", "kazoo"),
    "from auditor.cli import main; main(['--help'], standalone_mode=False)": (
        "pyspark",
        "pandas",
        "pyarrow",
        "numpy",
        "jinja2",
        "matplotlib",
        "wcwidth",
    ),
    "from auditor.cli import main; main(['explain', 'check', 'entry-lost'], standalone_mode=False)": (
        "pyspark",
        "pandas",
        "pyarrow",
        "numpy",
    ),
    "from auditor.cli import main; main(['decode', 'last-mark', {mark!r}], standalone_mode=False)": (
        "pyspark",
        "pandas",
        "pyarrow",
        "kazoo",
    ),
    "from auditor.cli import main; main(['decode', 'availability', {value!r}], standalone_mode=False)": (
        "pyspark",
        "pandas",
        "pyarrow",
        "kazoo",
    ),
    "from auditor.cli import main; main(['ledger', 'show', '--metadata', {dump!r}, '--ledger-id', '5'], "
    "standalone_mode=False)": ("pyspark", "pandas", "pyarrow", "kazoo", "grpc"),
    "import auditor.checks, auditor.reports.text, auditor.notebook.run": ("pyspark", "pandas", "pyarrow"),
    "from auditor.cli import main; main(['history', {empty!r}], standalone_mode=False)": (
        "pyspark",
        "pandas",
    ),
    "from auditor.cli import main; main(['diff', '--help'], standalone_mode=False)": (
        "pyspark",
        "pandas",
        "pyarrow",
        "numpy",
    ),
    "import auditor.runs.history": ("pyspark", "pandas"),
    "from auditor.cli import main; main(['report', {run!r}], standalone_mode=False)": ("pyspark", "wcwidth"),
    "from auditor.cli import main; main(['diff', {run!r}, {run!r}], standalone_mode=False)": (
        "pyspark",
        "pandas",
    ),
}


@pytest.mark.parametrize(("program", "unwanted"), UNWANTED_MODULES.items())
def test_quick_commands_do_not_load_heavy_libraries(
    program: str, unwanted: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "mark").write_bytes(bytes(16))
    (tmp_path / "value").write_bytes(bytes(64))
    (tmp_path / "dump.jsonl").write_text(
        '{"path": "/ledgers", "data": "", "czxid": 1, "mzxid": 1, "ctime": 1, "mtime": 1, "version": 0, '
        '"ephemeralOwner": 0}\n{"path": "/ledgers/00/0000/L0005", "data": "", "czxid": 1, "mzxid": 1, '
        '"ctime": 1, "mtime": 1, "version": 0, "ephemeralOwner": 0}\n'
    )
    names = {
        "mark": str(tmp_path / "mark"),
        "value": str(tmp_path / "value"),
        "dump": f"dump://{tmp_path}/dump.jsonl",
        "empty": str(tmp_path),
        "run": made_run(tmp_path / "run").path,
    }
    script = f"{program.format(**names)}\nimport sys\nprint('loaded:', *sys.modules, file=sys.stderr)"
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    loaded = set(outcome.stderr.rpartition("loaded:")[2].split())
    assert not loaded & set(unwanted)


def test_every_check_is_documented() -> None:
    for check in ALL_CHECKS:
        assert check.title.endswith("."), check.id
        assert list(check.sections) == list(SECTIONS), check.id


def test_every_check_has_an_id_of_words_and_its_own_module() -> None:
    for check in ALL_CHECKS:
        assert re.fullmatch("[a-z]+(-[a-z]+)*", check.id)
    assert len({check.id for check in ALL_CHECKS}) == len(ALL_CHECKS)


def test_the_documents_describe_every_command() -> None:
    page = (ROOT / "docs" / "getting-started.md").read_text("utf-8")
    for command in COMMAND_HELP_TEXTS:
        assert f"| `bkaudit {command}" in page, command


def test_readme_is_short_and_links_every_document() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) <= 150
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages - set(re.findall(r"\]\((docs/[\w.-]+)\)", readme)) <= {"docs/dumps.md"}


def test_every_document_link_leads_to_a_file() -> None:
    links = {page: re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")) for page in DOCUMENTS}
    assert sum(map(len, links.values())) > len(DOCUMENTS)
    nowhere = [
        (page.name, link) for page in links for link in links[page] if not (page.parent / link).exists()
    ]
    assert nowhere == []


def test_the_readme_opens_with_the_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text("utf-8").splitlines()[:25]
    assert any("python3 run.py demo" in line for line in first_screen)
    assert any("python3 run.py test" in line for line in first_screen)


def test_no_file_contains_a_machine_specific_path() -> None:
    place = re.compile(r"/(root|work|home)/\w|/tmp/\w")
    assert [str(path.relative_to(ROOT)) for path in TEXTS if place.search(path.read_text("utf-8"))] == []


# What is asked, and reached: these go down, never up.
HEADER_SHARE = 0.14
FRAGMENTS = 0


@pytest.fixture(scope="module")
def house() -> Repo:
    return Repo(read_tree())


def test_header_share_is_within_limit(house: Repo) -> None:
    assert house.header_share() <= HEADER_SHARE


def test_small_module_has_two_importers_or_a_registry_row(house: Repo) -> None:
    fragments = house.fragments()
    assert len(fragments) <= FRAGMENTS, fragments


def test_store_features_are_not_derived_from_etcd_layout() -> None:
    asking = ("checks", "findings", "reports", "runs", "doctor", "notebook", "cli")
    compared = re.compile(r"layout\b[^\n]*(==|!=|\bis\b|\bin\b)[^\n]*(\"etcd\"|LayoutKind\.ETCD)")
    modules = [
        module_path(module)
        for module in MODULES
        if floor_of(module) in asking and compared.search(module.read_text("utf-8"))
    ]
    assert modules == []


def test_architecture_tree_lists_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    tree = page.partition("## Packages")[2].partition("\n## ")[0]
    packages = [
        directory.name
        for room in (HOUSE, HOUSE / "codecs", HOUSE / "sources")
        for directory in room.iterdir()
        if (directory / "__init__.py").exists() and directory.name != "shipped"
    ]
    assert [name for name in packages if f"{name}/" not in tree] == []
