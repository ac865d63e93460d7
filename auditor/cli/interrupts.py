"""Repetition of interrupts that Python would lose.

Python raises KeyboardInterrupt wherever the main thread is. Two places lose it, so that the command would run
to its end. The import of a compiled module may drop the exception in the module's own code. Python prints and
forgets exceptions of finalizers.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

REPEAT_SECONDS = 0.05
"""Time until an interrupt is sent again, in seconds."""

IMPORT_CODE = "<frozen importlib._bootstrap>"
"""File name in the frames of Python's own import code."""


@contextmanager
def lasting_interrupts() -> Iterator[None]:
    """Send an interrupt again if it arrives during an import or in a finalizer.

    This replaces only Python's own handler, and only in the main thread. Handlers of other programs stay.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    unraisable_hook = sys.unraisablehook

    def repeat_if_lost(unraisable: "UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _interrupt_later()
        else:
            unraisable_hook(unraisable)

    signal.signal(signal.SIGINT, _interrupt_unless_importing)
    sys.unraisablehook = repeat_if_lost
    try:
        yield
    finally:
        sys.unraisablehook = unraisable_hook
        # PySpark sets a handler of its own, which stays as long as the process.
        if signal.getsignal(signal.SIGINT) is _interrupt_unless_importing:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_unless_importing(number: int, frame: FrameType | None) -> None:
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename == IMPORT_CODE:
            _interrupt_later()
            return
        caller = caller.f_back
    signal.default_int_handler(number, frame)


def _interrupt_later() -> None:
    timer = threading.Timer(REPEAT_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
