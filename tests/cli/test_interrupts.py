"""An interrupt ends a command even if it arrives where Python loses it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.cli.interrupts import repeat_interrupts

LONG_SECONDS = 20
"""An interrupt that is sent again ends a sleep of this length at once."""

DROPS_EXCEPTIONS = """
import signal
try:
    signal.raise_signal(signal.SIGINT)
except BaseException:
    pass
"""
"""A module that drops exceptions while it is imported, as compiled ones may."""


@pytest.fixture
def own_handler() -> Iterator[None]:
    """Install Python's own SIGINT handler for a test; restore the previous handler afterwards."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def lose_in_import() -> None:
    __import__("drops_exceptions")
    time.sleep(LONG_SECONDS)
    pytest.fail("the interrupt was lost")


def lose_in_finalizer() -> None:
    InterruptedFinalizer()
    time.sleep(LONG_SECONDS)
    pytest.fail("the interrupt was lost")


class InterruptedFinalizer:
    """An object whose finalizer receives an interrupt."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("own_handler")
def test_interrupt_during_an_import_is_raised_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "drops_exceptions.py").write_text(DROPS_EXCEPTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), repeat_interrupts():
        lose_in_import()
    assert "drops_exceptions" in sys.modules


@pytest.mark.usefixtures("own_handler")
def test_interrupt_in_a_finalizer_is_raised_after_it() -> None:
    with pytest.raises(KeyboardInterrupt), repeat_interrupts():
        lose_in_finalizer()


@pytest.mark.usefixtures("own_handler")
def test_own_handler_is_restored_and_foreign_handlers_are_not_replaced() -> None:
    hook = sys.unraisablehook
    with repeat_interrupts():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == (signal.default_int_handler, hook)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with repeat_interrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
