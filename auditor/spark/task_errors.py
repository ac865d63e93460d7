"""What a Spark task raised on purpose, raised again on the driver as itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from auditor.errors import AuditorError, CompactedError, RunError, StoreError, UsageError

_OWN: dict[str, type[AuditorError]] = {
    each.__name__: each for each in (StoreError, CompactedError, UsageError, RunError)
}
# The last line of a Python traceback, in whatever Spark and Java wrap around it.
_RAISED = re.compile(rf"^(?:.*\s)?auditor\.errors\.({'|'.join(_OWN)}): (.*)$", re.MULTILINE)


@contextmanager
def own_errors() -> Iterator[None]:
    """Turn Spark's report of a failed task into the error that the task raised.

    Tasks run in other processes, and only the text of their errors comes back: without this a metadata store
    that goes away in the middle of a scan would look like a bug. Errors that are not this package's own, or
    that the driver raised itself, pass as they are.

    >>> with own_errors():
    ...     raise RuntimeError("Traceback ...\\nauditor.errors.StoreError: nobody answers\\n\\tat org...")
    Traceback (most recent call last):
    auditor.errors.StoreError: nobody answers

    Raises:
        StoreError: a task could not read the store; CompactedError, because its moment is gone.
        UsageError: a task was told what cannot be meant; RunError, because an earlier run is damaged.
    """
    try:
        yield
    except AuditorError:
        raise
    except Exception as error:
        raised = _RAISED.findall(str(error))
        if not raised:
            raise
        name, message = raised[-1]
        raise _OWN[name](message.rstrip()) from error
