"""What all stores of saved metadata are: files that are read once, and hold one moment for ever."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from auditor.sources.metadata.uri import MetadataUri

Content = TypeVar("Content")
"""What a store keeps of its files on the driver."""


class SavedStore(ABC, Generic[Content]):
    """Metadata in files: the part of `auditor.sources.metadata.store.MetadataStore` that follows from it.

    ``_path`` is the file or directory. What `_read_files` makes of it is read when it is asked for first, and
    kept until `close`.
    """

    live = False

    def __init__(self, uri: MetadataUri) -> None:
        self.uri = uri
        self.root = uri.root
        self._path = Path(uri.path)
        self._content: Content | None = None

    @abstractmethod
    def _read_files(self) -> Content:
        """Read the files, on the driver."""

    def moment_lost(self) -> bool:
        """Never: what is saved stays."""
        return False

    def close(self) -> None:
        """Forget what was read; the store may be used again."""
        self._content = None

    def _load(self) -> Content:
        if self._content is None:
            self._content = self._read_files()
        return self._content
