"""A cookie stores its journal directories as one string, with the paths in order."""

from __future__ import annotations

from auditor.model.cookie import Cookie


def test_journal_directories_are_joined_by_commas() -> None:
    assert Cookie(5, "a", "/j0,/j1", ("/l",)).journal_paths == ("/j0", "/j1")
    assert Cookie(5, "a", "/j", ("/l",)).journal_paths == ("/j",)
