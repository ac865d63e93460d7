"""The cost of a test includes all its processes, and equal audits are listed by name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.costs import digest_of, processor_seconds, summary

ROOT = Path(__file__).parents[1]
BUSY = "import time\nwhile time.process_time() < 0.5: pass\nprint('busy', flush=True)\ninput()"


def test_processor_seconds_include_running_and_ended_children() -> None:
    before = processor_seconds()
    command = [sys.executable, "-c", BUSY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "busy\n"
        assert processor_seconds() - before >= 0.4
        child.communicate("\n")
    assert processor_seconds() - before >= 0.4


def test_equal_files_have_equal_digests_in_any_directory(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name / "current").mkdir(parents=True)
        (tmp_path / name / "current" / "0.log").write_bytes(b"BKLO")
        (tmp_path / name / "metadata.jsonl").write_text("{}")
    first, second = (
        [f"dump://{tmp_path / name}/metadata.jsonl?root=/l", str(tmp_path / name)]
        for name in ("one", "other")
    )
    assert digest_of(first) == digest_of(second)
    (tmp_path / "other" / "current" / "0.log").write_bytes(b"BKLP")
    assert digest_of(first) != digest_of(second)
    shutil.rmtree(tmp_path / "one")
    assert digest_of(first) != digest_of(second)


def test_costs_are_added_up_by_file_and_equal_audits_are_named() -> None:
    rows = [
        {"audit": ["a", "{}"], "test": "t/a.py::one", "seconds": 6.0},
        {"test": "t/a.py::one", "seconds": 7.0},
        {"audit": ["a", "{}"], "test": "t/b.py::two", "seconds": 5.0},
        {"audit": ["b", "{}"], "test": "t/b.py::two", "seconds": 5.0},
        {"test": "t/b.py::two", "seconds": 12.0},
    ]
    assert [*summary(rows)] == [
        "19 s of processor time, 2 tests, 3 audits of 16 s",
        "    12.0 s    2 audits  t/b.py",
        "     7.0 s    1 audits  t/a.py",
        "2 equal audits: t/a.py::one, t/b.py::two",
    ]


def test_run_writes_a_cost_line_for_each_test(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "from auditor import Audit\n\n\ndef test_audit():\n    try:\n"
        "        Audit('dump:///none.jsonl', ['/none'], '/none/run').run()\n"
        "    except Exception:\n        pass\n\n\ndef test_other():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.costs"]
    command += ["--rootdir", str(tmp_path), "--costs", str(tmp_path / "costs"), str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in (tmp_path / "costs").read_text().splitlines()]
    assert [("audit" in row, row["test"]) for row in rows] == [
        (True, "test_x.py::test_audit"),
        (False, "test_x.py::test_audit"),
        (False, "test_x.py::test_other"),
    ]
