"""Reads of etcd key ranges in pages below the message limit.

The size of the values is not known in advance. So pages start with few keys and grow to about half a
message, judging by the size of the last page. If the server refuses an answer as too large, the page
is halved. A key whose value fits no message becomes a gap.

Each answer reports the number of keys in its range. A range must yield that many keys, because
nothing changes at one revision. A shorter result is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from auditor.codecs.byte_column import ByteColumn, TextColumn
from auditor.errors import StoreError, TooLargeError
from auditor.keys.etcd import key_text
from auditor.sources.metadata.etcd.client import (
    MESSAGE_LIMIT,
    EtcdAnswer,
    EtcdClient,
    EtcdQuestion,
    Keys,
    Pending,
)
from auditor.sources.metadata.store import NO_TIME, StoreOptions, ZnodeBatch

FIRST_PAGE = 500
LARGEST_PAGE = 5_000
"""Largest page, in keys. Larger pages of ledgers are not read any faster."""

CHANGED_PAGES = 4
"""Largest number of pages of changed keys in a range. With more, the whole range is read instead."""

PAGE_BYTES = MESSAGE_LIMIT // 2
"""Target size of a page, in bytes: half a message, so that a few larger values still fit."""


@dataclass(slots=True)
class Page:
    """Keys in ascending order, and gaps among them: (path, reason) of keys that could not be read."""

    keys: Keys
    gaps: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def join(cls, pages: Sequence[Page]) -> Page:
        """Join consecutive pages into one."""
        columns = [list(chain(*column)) for column in zip(*(page.keys for page in pages), strict=True)]
        return cls(Keys(*columns), [gap for page in pages for gap in page.gaps])


def batch_of(page: Page, time: int) -> ZnodeBatch:
    """Return a page as a `ZnodeBatch`. ``time`` is the time when the page's revision was pinned, in ms."""
    revisions = np.array(page.keys.changed, np.int64)
    names = ByteColumn.from_values(page.keys.names)
    is_ascii = names.octets.max(initial=0) < 0x80  # all keys are ASCII
    return ZnodeBatch(
        TextColumn(names) if is_ascii else [key_text(name) for name in page.keys.names],
        page.keys.values,
        mzxid=revisions,
        ctime=np.full(len(revisions), NO_TIME, np.int64),
        mtime=np.full(len(revisions), time, np.int64),
        version=revisions,
        ephemeral_owner=np.array(page.keys.leases, np.int64),
        gaps=page.gaps,
        # The first write of a key is its creation.
        changes=np.array(page.keys.versions, np.int64) - 1,
    )


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """The changed keys of a range, and the number of all keys in the range."""

    pages: list[Page]
    count: int


class EtcdPages:
    """A reader of key ranges, page by page.

    The reader keeps its estimate of the best page size from one range to the next.
    """

    def __init__(self, client: EtcdClient, options: StoreOptions) -> None:
        self._client = client
        self._in_flight = max(1, options.in_flight)
        # At most one second's share of the rate, so that a low rate gives no bursts. At least one key: to
        # etcd 0 means no limit.
        page = max(1, int(options.rate_limit)) if options.rate_limit else LARGEST_PAGE
        self._largest = min(LARGEST_PAGE, page)
        self._largest = max(1, self._largest)
        self._limit = min(FIRST_PAGE, self._largest)

    def read(self, start: bytes, end: bytes, revision: int) -> Iterator[Page]:
        """Read the keys from ``start`` on and before ``end``, in order, page by page.

        The reader requests the next page while the caller uses the current page.

        Raises:
            CompactedError, StoreError: see `EtcdClient.finish`.
        """
        yield from self._counted_pages(EtcdQuestion(start, end, revision, self._limit))

    @property
    def asks_ahead(self) -> bool:
        """Return whether the reader may send a second question before it has used the answer to the first."""
        return self._in_flight > 1

    def ask_changed(self, start: bytes, end: bytes, revision: int, since_revision: int) -> Pending:
        """Ask for the keys of a range that changed at revision ``since_revision`` or later.

        `changed` waits for the answer.
        """
        return self._client.begin(EtcdQuestion(start, end, revision, self._limit, since=since_revision))

    def changed(self, pending: Pending) -> ChangedKeys | None:
        """Return the keys that `ask_changed` asked for, or None if they need more than `CHANGED_PAGES` pages.

        The limit saves work, because the server goes through the whole rest of the range for each page.

        Raises:
            CompactedError, StoreError: see `EtcdClient.finish`.
        """
        pages: list[Page] = []
        count = 0
        for page, answer in self._read_pages(pending):
            if len(pages) == CHANGED_PAGES:
                return None
            pages.append(page)
            count = max(count, answer.count)
        return ChangedKeys(pages, count)

    def names(self, start: bytes, end: bytes, revision: int) -> Iterator[Keys]:
        """Read the keys of a range like `read`, but without their values."""
        for page in self._counted_pages(EtcdQuestion(start, end, revision, self._largest, keys_only=True)):
            yield page.keys

    def _counted_pages(self, question: EtcdQuestion) -> Iterator[Page]:
        """Yield all pages of a range. Raise an error if their keys are not as many as the server counts."""
        read = expected_count = 0
        for page, answer in self._read_pages(self._client.begin(question)):
            read += len(answer.keys.names)
            expected_count = max(expected_count, answer.count)
            yield page
        if read != expected_count:
            raise StoreError(
                f"{self._client.name}: {read} keys received from {key_text(question.start)} on, "
                f"{expected_count} counted by etcd at revision {question.revision}"
            )

    def _read_pages(self, first_pending: Pending) -> Iterator[tuple[Page, EtcdAnswer]]:
        """Yield the page that a sent question asked for, and all following pages of its range.

        Each page comes with its answer.
        """
        pending = first_pending
        while True:
            question = pending.question
            try:
                answer = self._client.finish(pending)
            except TooLargeError:
                if question.limit > 1:
                    self._limit = max(1, question.limit // 2)
                    pending = self._client.begin(replace(question, limit=self._limit))
                    continue
                page, answer = self._read_large_page(question)
            else:
                page = Page(answer.keys)
                if not question.keys_only:
                    self._adapt_limit(answer)
            if not (answer.has_more and answer.keys.names):
                yield page, answer
                return
            limit = question.limit if question.keys_only else self._limit
            next_question = replace(question, start=answer.keys.names[-1] + b"\0", limit=limit)
            next_pending = self._client.begin(next_question) if self.asks_ahead else None
            yield page, answer
            pending = next_pending or self._client.begin(next_question)

    def counts(self, key_ranges: Sequence[tuple[bytes, bytes]], revision: int) -> list[int]:
        """Return the number of keys in each range, without reading keys."""
        counts: list[int] = []
        sent_questions: deque[Pending] = deque()
        for start, end in key_ranges:
            if len(sent_questions) >= self._in_flight:
                counts.append(self._client.finish(sent_questions.popleft()).count)
            sent_questions.append(self._client.begin(EtcdQuestion(start, end, revision, count_only=True)))
        return counts + [self._client.finish(pending).count for pending in sent_questions]

    def first(self, start: bytes, end: bytes, revision: int) -> bytes | None:
        """Return the first key of a range; None if the range is empty."""
        answer = self._client.ask(EtcdQuestion(start, end, revision, limit=1, keys_only=True))
        return answer.keys.names[0] if answer.keys.names else None

    def _read_large_page(self, question: EtcdQuestion) -> tuple[Page, EtcdAnswer]:
        """Return a gap for the key whose value fits no message, after reading the key without its value."""
        answer = self._client.ask(replace(question, limit=1, keys_only=True))
        reason = f"its value is larger than a message of {MESSAGE_LIMIT} bytes"
        return Page(
            Keys([], [], [], [], [], []), [(key_text(name), reason) for name in answer.keys.names]
        ), answer

    def _adapt_limit(self, answer: EtcdAnswer) -> None:
        if answer.keys.names:
            fitting_keys = PAGE_BYTES * len(answer.keys.names) // max(1, answer.size)
            # At most twice the last page: later values may be larger.
            self._limit = max(1, min(fitting_keys, 2 * self._limit, self._largest))
