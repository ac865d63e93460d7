"""Repetition of interrupts (Ctrl-C) that Python would lose.

Python raises KeyboardInterrupt at any point that the main thread has reached. At two kinds of points, the
exception gets lost, and the command would run to its end. During the import of a compiled module, the code
of the module may drop the exception. In a finalizer, Python only prints the exception and continues.
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
"""Time after which a lost interrupt is sent again, in seconds."""

IMPORT_CODE_FILE_NAME = "<frozen importlib._bootstrap>"
"""File name that stack frames of Python's import code have."""


@contextmanager
def repeat_interrupts() -> Iterator[None]:
    """Repeat interrupts that arrive during an import or in a finalizer, while the block runs.

    This works only in the main thread, and only if Python's own signal handler is installed. Handlers of
    other programs are not replaced.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    earlier_hook = sys.unraisablehook

    def repeat_if_lost(unraisable_error: "UnraisableHookArgs") -> None:
        if issubclass(unraisable_error.exc_type, KeyboardInterrupt):
            _interrupt_later()
        else:
            earlier_hook(unraisable_error)

    signal.signal(signal.SIGINT, _interrupt_unless_importing)
    sys.unraisablehook = repeat_if_lost
    try:
        yield
    finally:
        sys.unraisablehook = earlier_hook
        # A handler of PySpark stays until the process ends.
        if signal.getsignal(signal.SIGINT) is _interrupt_unless_importing:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_unless_importing(signal_number: int, interrupted_frame: FrameType | None) -> None:
    calling_frame = interrupted_frame
    while calling_frame is not None:
        if calling_frame.f_code.co_filename == IMPORT_CODE_FILE_NAME:
            _interrupt_later()
            return
        calling_frame = calling_frame.f_back
    signal.default_int_handler(signal_number, interrupted_frame)


def _interrupt_later() -> None:
    timer = threading.Timer(REPEAT_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
