"""Which bookies would not start, for a journal lacks the file that its mark names."""

from __future__ import annotations

from auditor.audit.journal_scan import LostJournal, Tail, refused_replays

WHOLE = Tail(None, 0, None, files=2)


def lost(older: int, newer: int) -> Tail:
    return Tail("gone", 0, None, older + newer, (LostJournal("/j", 0x1A, older, newer),))


def test_a_journal_without_the_file_of_its_mark_refuses_the_start() -> None:
    """4.17.2: whether it was killed or stopped, and whatever other files are there."""
    for tail in (lost(1, 0), lost(0, 1), lost(3, 2)):
        [(name, refusal)] = refused_replays({"bk1": tail, "bk2": WHOLE}, ()).items()
        assert (name, refusal.error, refusal.fault) == ("bk1", "java.io.IOException", "journal-gone")
        assert (refusal.certain, refusal.paths) == (True, ("/j",))
        assert refusal.reason == "/j lacks 1a.txn, from which the bookie would replay its journal"
    assert refused_replays({"bk1": WHOLE}, ()) == {}


def test_the_mark_of_a_running_bookie_may_have_moved() -> None:
    assert refused_replays({"bk1": lost(1, 1)}, {"bk1"})["bk1"].certain is False
    assert refused_replays({"bk1": lost(1, 0)}, {"bk1"})["bk1"].certain is True


def test_a_copy_without_any_journal_says_nothing() -> None:
    """Journals are large, and often left out of a copy."""
    for running in (set[str](), {"bk1", "bk2"}):
        assert refused_replays({"bk1": lost(0, 0), "bk2": lost(0, 0)}, running) == {}
        assert refused_replays({"bk1": lost(0, 0), "bk2": WHOLE}, running)["bk1"].certain is False
