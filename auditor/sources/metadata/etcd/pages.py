"""Reads of etcd key ranges, in pages that are smaller than the message limit.

The size of the values is not known in advance. So the first pages have few keys. Later pages grow to about
half a message, based on the size of the last page. If the server refuses an answer because it is too large,
the page is halved. A key whose value does not fit into any message is reported as a gap. A gap is the path of
a key that could not be read, with the reason.

Each answer reports the number of keys in its range. At one revision nothing changes, so the pages of a
range must contain exactly that many keys. Otherwise an error is raised.
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
    EtcdRangeRequest,
    Keys,
    PendingAnswer,
)
from auditor.sources.metadata.store import NO_TIME, StoreOptions, ZnodeBatch

FIRST_PAGE_KEYS = 500
MAX_PAGE_KEYS = 5_000
"""Largest page, in keys. Larger pages of ledgers are not read any faster."""

MAX_CHANGED_PAGES = 4
"""Largest number of pages of changed keys in a range. With more, the whole range is read instead."""

TARGET_PAGE_BYTES = MESSAGE_LIMIT // 2
"""Target size of a page, in bytes: half a message, so that a few larger values still fit."""


@dataclass(slots=True)
class Page:
    """Keys in ascending order, and the gaps among them.

    A gap is a key that could not be read. It is a pair of the key's path and the reason.
    """

    keys: Keys
    gaps: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def join(cls, pages: Sequence[Page]) -> Page:
        """Join consecutive pages into one."""
        columns = [
            list(chain(*page_column)) for page_column in zip(*(page.keys for page in pages), strict=True)
        ]
        return cls(Keys(*columns), [gap for page in pages for gap in page.gaps])


def make_page_batch(page: Page, pinned_ms: int) -> ZnodeBatch:
    """Return a page as a `ZnodeBatch`.

    ``pinned_ms`` is the time when the revision of the page was pinned, in ms.
    """
    revisions = np.array(page.keys.mod_revisions, np.int64)
    names = ByteColumn.from_values(page.keys.names)
    is_ascii = names.octets.max(initial=0) < 0x80  # all keys are ASCII
    return ZnodeBatch(
        TextColumn(names) if is_ascii else [key_text(name) for name in page.keys.names],
        page.keys.values,
        mzxid=revisions,
        ctime=np.full(len(revisions), NO_TIME, np.int64),
        mtime=np.full(len(revisions), pinned_ms, np.int64),
        version=revisions,
        ephemeral_owner=np.array(page.keys.leases, np.int64),
        gaps=page.gaps,
        # The first write of a key is its creation.
        changes=np.array(page.keys.versions, np.int64) - 1,
    )


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """The keys that changed in a range, as pages, and the number of all keys in the range."""

    pages: list[Page]
    count: int


class EtcdPages:
    """A reader that reads ranges of keys page by page.

    It estimates the best page size, and keeps this estimate from one range to the next.
    """

    def __init__(self, client: EtcdClient, options: StoreOptions) -> None:
        self._client = client
        self._max_in_flight = max(1, options.in_flight)
        # At most one second's share of the rate, so that a low rate gives no bursts. At least one key: to
        # etcd 0 means no limit.
        page_keys = max(1, int(options.rate_limit)) if options.rate_limit else MAX_PAGE_KEYS
        self._max_limit = min(MAX_PAGE_KEYS, page_keys)
        self._max_limit = max(1, self._max_limit)
        self._page_limit = min(FIRST_PAGE_KEYS, self._max_limit)

    def read(self, start: bytes, end: bytes, revision: int) -> Iterator[Page]:
        """Yield the keys from ``start`` on and before ``end``, in order, page by page.

        If `can_request_ahead`, the reader requests the next page while the caller uses the current page.

        Raises:
            CompactedError, StoreError: see `EtcdClient.receive_answer`.
        """
        yield from self._read_counted_pages(EtcdRangeRequest(start, end, revision, self._page_limit))

    @property
    def can_request_ahead(self) -> bool:
        """Return whether the reader may send a second request before the first answer has been used."""
        return self._max_in_flight > 1

    def ask_for_changes(self, start: bytes, end: bytes, revision: int, since_revision: int) -> PendingAnswer:
        """Request the keys of a range that changed at revision ``since_revision`` or later.

        Pass the result to `receive_changes`, which waits for the answer.
        """
        return self._client.send_request(
            EtcdRangeRequest(start, end, revision, self._page_limit, since_revision=since_revision)
        )

    def receive_changes(self, pending_answer: PendingAnswer) -> ChangedKeys | None:
        """Return the keys that `ask_for_changes` requested.

        Return None if the keys fill more than `MAX_CHANGED_PAGES` pages. This limit saves work, because the
        server goes through the whole rest of the range for each page.

        Raises:
            CompactedError, StoreError: see `EtcdClient.receive_answer`.
        """
        pages: list[Page] = []
        key_count = 0
        for page, answer in self._read_pages(pending_answer):
            if len(pages) == MAX_CHANGED_PAGES:
                return None
            pages.append(page)
            key_count = max(key_count, answer.count)
        return ChangedKeys(pages, key_count)

    def names(self, start: bytes, end: bytes, revision: int) -> Iterator[Keys]:
        """Yield the keys of a range like `read`, but without their values."""
        for page in self._read_counted_pages(
            EtcdRangeRequest(start, end, revision, self._max_limit, keys_only=True)
        ):
            yield page.keys

    def _read_counted_pages(self, range_request: EtcdRangeRequest) -> Iterator[Page]:
        """Yield all pages of a range.

        Raise an error if the pages do not have as many keys as the server counts in the range.
        """
        received_count = expected_count = 0
        for page, answer in self._read_pages(self._client.send_request(range_request)):
            received_count += len(answer.keys.names)
            expected_count = max(expected_count, answer.count)
            yield page
        if received_count != expected_count:
            raise StoreError(
                f"{self._client.name}: received {received_count} keys from {key_text(range_request.start)} "
                f"on, but etcd counts {expected_count} at revision {range_request.revision}"
            )

    def _read_pages(self, first_pending_answer: PendingAnswer) -> Iterator[tuple[Page, EtcdAnswer]]:
        """Yield the page for a request that was already sent, and all later pages of its range.

        Each page comes with the answer that contained it.
        """
        pending_answer = first_pending_answer
        while True:
            range_request = pending_answer.range_request
            try:
                answer = self._client.receive_answer(pending_answer)
            except TooLargeError:
                if range_request.limit > 1:
                    self._page_limit = max(1, range_request.limit // 2)
                    pending_answer = self._client.send_request(replace(range_request, limit=self._page_limit))
                    continue
                page, answer = self._read_large_page(range_request)
            else:
                page = Page(answer.keys)
                if not range_request.keys_only:
                    self._adapt_limit(answer)
            if not (answer.has_more and answer.keys.names):
                yield page, answer
                return
            page_limit = range_request.limit if range_request.keys_only else self._page_limit
            next_request = replace(range_request, start=answer.keys.names[-1] + b"\0", limit=page_limit)
            next_pending_answer = self._client.send_request(next_request) if self.can_request_ahead else None
            yield page, answer
            pending_answer = next_pending_answer or self._client.send_request(next_request)

    def count_keys(self, key_ranges: Sequence[tuple[bytes, bytes]], revision: int) -> list[int]:
        """Return the number of keys in each range, without reading the keys."""
        key_counts: list[int] = []
        pending_answers: deque[PendingAnswer] = deque()
        for start, end in key_ranges:
            if len(pending_answers) >= self._max_in_flight:
                key_counts.append(self._client.receive_answer(pending_answers.popleft()).count)
            pending_answers.append(
                self._client.send_request(EtcdRangeRequest(start, end, revision, count_only=True))
            )
        return key_counts + [
            self._client.receive_answer(pending_answer).count for pending_answer in pending_answers
        ]

    def first_key(self, start: bytes, end: bytes, revision: int) -> bytes | None:
        """Return the first key of a range, or None if the range is empty."""
        answer = self._client.ask(EtcdRangeRequest(start, end, revision, limit=1, keys_only=True))
        return answer.keys.names[0] if answer.keys.names else None

    def _read_large_page(self, range_request: EtcdRangeRequest) -> tuple[Page, EtcdAnswer]:
        """Return a page without keys, which reports the first key of the request as unreadable.

        This is for a key whose value does not fit into any message. The server sends the key without its
        value. The page has the key's path and the reason in ``gaps``. The answer is the second result.
        """
        answer = self._client.ask(replace(range_request, limit=1, keys_only=True))
        reason = f"its value does not fit in a message of {MESSAGE_LIMIT} bytes"
        return Page(
            Keys([], [], [], [], [], []), [(key_text(name), reason) for name in answer.keys.names]
        ), answer

    def _adapt_limit(self, answer: EtcdAnswer) -> None:
        if answer.keys.names:
            fitting_key_count = TARGET_PAGE_BYTES * len(answer.keys.names) // max(1, answer.size)
            # At most twice the last page: later values may be larger.
            self._page_limit = max(1, min(fitting_key_count, 2 * self._page_limit, self._max_limit))
