"""The applications whose owners are known: one row each.

A new one needs a module with a function of the kind that `Application.reader` names, and a row here. Modules
are named and not imported, so that an audit without owners loads none of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from auditor.sources.owners.owner import Owner

Reader = Callable[[str, bytes], Owner | None]
"""From a path below the application's root, and the value there, to an owner; None where nothing is kept.

Raises DecodeError of a damaged value, and ValueError of a path that the application does not have.
"""


@dataclass(frozen=True, slots=True)
class Application:
    """An application that keeps references to ledgers in znodes, or in keys that are paths.

    ``trees`` are where, below its root; the first is there wherever the application is used. ``reader`` is
    ``module:function``, a `Reader`.
    """

    trees: tuple[str, ...]
    reader: str

    def load(self) -> Reader:
        """The function, from its module."""
        module, _, function = self.reader.partition(":")
        found: Reader = getattr(importlib.import_module(module), function)
        return found


APPLICATIONS = {
    "pulsar": Application(
        ("managed-ledgers", "schemas", "pulsar/functions"), "auditor.sources.owners.pulsar:read_owner"
    ),
}
"""By the name that ``--owners`` takes, and that ledgers have in their custom metadata as ``application``."""
