"""Every commit since a fixed one has a subject of the form ``area: verb object``, except merges.

Without git or its history, as in an archive, the test is skipped with the reason. A history that lacks the
fixed commit is shallow or was rewritten, so its new commits are unknown. The test then warns.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

LAST_FREE_COMMIT = "0601d8b71070b15f6d4780433826cba460386e0e"
"""Newest commit with a subject of any form."""

MAX_SUBJECT_CHARACTERS = 72

SUBJECT = re.compile(r"[a-z.][\w./-]*: [a-z][\w-]* \S.*(?<![.\s])")
"""Area, imperative verb, object; no full stop at the end."""


def faults(subject: str) -> list[str]:
    """Return the faults of a commit's subject; the list is empty if it has none."""
    reasons = [] if SUBJECT.fullmatch(subject) else ["not of the form 'area: verb object'"]
    if len(subject) > MAX_SUBJECT_CHARACTERS:
        reasons.append(f"{len(subject)} characters of at most {MAX_SUBJECT_CHARACTERS}")
    return reasons


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False, encoding="utf-8"
    )


def skip_without_history() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git history: this is a copy of the sources, or git is not installed")
    if (head := git("rev-parse", "HEAD")).returncode:
        pytest.skip(f"git cannot read the history: {head.stderr.strip()}")


@pytest.mark.process
def test_commits_have_an_area_a_verb_and_an_object() -> None:
    skip_without_history()
    if git("merge-base", "--is-ancestor", LAST_FREE_COMMIT, "HEAD").returncode:
        warnings.warn(f"subjects of commits: the history lacks {LAST_FREE_COMMIT}", stacklevel=1)
        return
    log = git("log", "--no-merges", "--format=%h %s", f"{LAST_FREE_COMMIT}..HEAD")
    assert log.returncode == 0, log.stderr
    commits = [line.partition(" ") for line in log.stdout.splitlines()]
    assert [(commit, subject, faults(subject)) for commit, _, subject in commits if faults(subject)] == []


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param("audit: keep the exit code when stderr is closed", id="plain"),
        pytest.param("docs/checks: shorten a page", id="a path as area"),
        pytest.param(".ci/run: check subjects", id="a hidden path"),
        pytest.param("x: " + "y" * 67 + " z", id="72 characters"),
    ],
)
def test_valid_subject_has_no_fault(subject: str) -> None:
    assert faults(subject) == []


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param("Keep the exit code", id="no area"),
        pytest.param("audit: Keep the exit code", id="a capital"),
        pytest.param("audit: keep", id="no object"),
        pytest.param("audit:keep the exit code", id="no blank"),
        pytest.param("audit: keep the exit code.", id="a full stop"),
        pytest.param("fixup! audit: keep the exit code", id="a fixup"),
        pytest.param("x: " + "y" * 68 + " z", id="73 characters"),
    ],
)
def test_invalid_subject_has_a_fault(subject: str) -> None:
    assert faults(subject)
