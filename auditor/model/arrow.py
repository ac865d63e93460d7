"""Lazy imports of pyarrow and pandas. Each library is loaded when code first uses it.

Loading these libraries takes longer than ``bkaudit explain check`` and ``bkaudit status`` should take.
Modules that read finished runs therefore import them with ``from auditor.model.arrow import pa, pc``.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    from pyarrow import fs
else:

    class _Lazy(ModuleType):
        def __getattr__(self, name: str) -> object:
            attribute = getattr(import_module(self.__name__), name)
            setattr(self, name, attribute)
            return attribute

    pd, pa = _Lazy("pandas"), _Lazy("pyarrow")
    pc, ds, pq, fs = map(_Lazy, ("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "pyarrow.fs"))

__all__ = ["ds", "fs", "pa", "pc", "pd", "pq"]
