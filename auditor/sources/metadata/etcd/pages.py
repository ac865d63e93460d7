"""Ranges of etcd keys read in pages that stay below the message limit.

How large a page may be depends on the values, which are not known before: it starts small, grows to what
half a message holds by the size of the last page, and is halved when an answer is refused as too large. A
single value that no message holds is a gap with its key.

A range's first page says how many keys it has. What was read must be as many: at one revision that cannot
change, so a shorter list is not a list.
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
"""Keys; larger pages of ledgers are not read any faster."""

CHANGED_PAGES = 4
"""A range with more changes is read completely."""

PAGE_BYTES = MESSAGE_LIMIT // 2
"""What a page aims at, so that a few larger values among the next ones do no harm."""


@dataclass(slots=True)
class Page:
    """Keys in ascending order, and (path, reason) of what could not be read between them."""

    keys: Keys
    gaps: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def join(cls, pages: Sequence[Page]) -> Page:
        """Pages that follow each other as one."""
        columns = [list(chain(*column)) for column in zip(*(page.keys for page in pages), strict=True)]
        return cls(Keys(*columns), [gap for page in pages for gap in page.gaps])


def batch_of(page: Page, time: int) -> ZnodeBatch:
    """A page as a store gives it; ``time`` is when its revision was pinned, in ms."""
    changed = np.array(page.keys.changed, np.int64)
    names = ByteColumn.of(page.keys.names)
    plain = names.octets.max(initial=0) < 0x80  # then no key needs a look of its own
    return ZnodeBatch(
        TextColumn(names) if plain else [key_text(name) for name in page.keys.names],
        page.keys.values,
        mzxid=changed,
        ctime=np.full(len(changed), NO_TIME, np.int64),
        mtime=np.full(len(changed), time, np.int64),
        version=changed,
        ephemeral_owner=np.array(page.keys.leases, np.int64),
        gaps=page.gaps,
        # The creation of a key is the first of its writes.
        changes=np.array(page.keys.written, np.int64) - 1,
    )


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """The keys of a range that have changed, and how many keys it has in all."""

    pages: list[Page]
    count: int


class EtcdPages:
    """Reads ranges at one revision; keeps what it learned of the size of keys from range to range."""

    def __init__(self, client: EtcdClient, options: StoreOptions) -> None:
        self._client = client
        self._in_flight = max(1, options.in_flight)
        # Not more at once than a second's share, or a low rate would come in bursts.
        # A second's share of the rate; of a share below 1 one key, for etcd takes 0 as no limit.
        page = max(1, int(options.rate_limit)) if options.rate_limit else LARGEST_PAGE
        self._largest = min(LARGEST_PAGE, page)
        self._largest = max(1, self._largest)
        self._limit = min(FIRST_PAGE, self._largest)

    def read(self, start: bytes, end: bytes, revision: int) -> Iterator[Page]:
        """The keys from ``start``, and before ``end``, in order, page by page.

        The next page is on its way while one is used.

        Raises:
            CompactedError, StoreError: see `EtcdClient.finish`.
        """
        yield from self._counted_pages(EtcdQuestion(start, end, revision, self._limit))

    @property
    def asks_ahead(self) -> bool:
        """Whether another question may be on its way while an answer is used."""
        return self._in_flight > 1

    def ask_changed(self, start: bytes, end: bytes, revision: int, since: int) -> Pending:
        """Ask what of a range was last changed at the revision ``since`` or later; `changed` waits for it."""
        return self._client.begin(EtcdQuestion(start, end, revision, self._limit, since=since))

    def changed(self, pending: Pending) -> ChangedKeys | None:
        """What of a range has changed, as it was asked.

        None where that is more than `CHANGED_PAGES` pages: for each the server goes through all that is left
        of the range.

        Raises: as `read`.
        """
        pages: list[Page] = []
        count = 0
        for page, answer in self._all(pending):
            if len(pages) == CHANGED_PAGES:
                return None
            pages.append(page)
            count = max(count, answer.count)
        return ChangedKeys(pages, count)

    def names(self, start: bytes, end: bytes, revision: int) -> Iterator[Keys]:
        """The keys of a range as `read` gives them, without values."""
        for page in self._counted_pages(EtcdQuestion(start, end, revision, self._largest, bare=True)):
            yield page.keys

    def _counted_pages(self, question: EtcdQuestion) -> Iterator[Page]:
        """All pages of a range, which must have as many keys as the server counts."""
        read = expected = 0
        for page, answer in self._all(self._client.begin(question)):
            read += len(answer.keys.names)
            expected = max(expected, answer.count)
            yield page
        if read != expected:
            raise StoreError(
                f"{self._client.name} gave {read} keys from {key_text(question.start)} on, of {expected} "
                f"that it counted at revision {question.revision}"
            )

    def _all(self, sent: Pending) -> Iterator[tuple[Page, EtcdAnswer]]:
        """Wait for an answer, and ask on from its last key, until there is no more."""
        pending = sent
        while True:
            question = pending.question
            try:
                answer = self._client.finish(pending)
            except TooLargeError:
                if question.limit > 1:
                    self._limit = max(1, question.limit // 2)
                    pending = self._client.begin(replace(question, limit=self._limit))
                    continue
                page, answer = self._too_large(question)
            else:
                page = Page(answer.keys)
                if not question.bare:
                    self._learn(answer)
            if not (answer.has_more and answer.keys.names):
                yield page, answer
                return
            limit = question.limit if question.bare else self._limit
            following = replace(question, start=answer.keys.names[-1] + b"\0", limit=limit)
            ahead = self._client.begin(following) if self.asks_ahead else None
            yield page, answer
            pending = ahead or self._client.begin(following)

    def counts(self, ranges: Sequence[tuple[bytes, bytes]], revision: int) -> list[int]:
        """How many keys each range has, without reading any."""
        counts: list[int] = []
        sent: deque[Pending] = deque()
        for start, end in ranges:
            if len(sent) >= self._in_flight:
                counts.append(self._client.finish(sent.popleft()).count)
            sent.append(self._client.begin(EtcdQuestion(start, end, revision, counted=True)))
        return counts + [self._client.finish(pending).count for pending in sent]

    def first(self, start: bytes, end: bytes, revision: int) -> bytes | None:
        """The first key of a range; None where it is empty."""
        answer = self._client.ask(EtcdQuestion(start, end, revision, limit=1, bare=True))
        return answer.keys.names[0] if answer.keys.names else None

    def _too_large(self, question: EtcdQuestion) -> tuple[Page, EtcdAnswer]:
        """Read the key alone of a value that fits no message."""
        answer = self._client.ask(replace(question, limit=1, bare=True))
        reason = f"its value is larger than a message of {MESSAGE_LIMIT} bytes"
        return Page(
            Keys([], [], [], [], [], []), [(key_text(name), reason) for name in answer.keys.names]
        ), answer

    def _learn(self, answer: EtcdAnswer) -> None:
        if answer.keys.names:
            fitting = PAGE_BYTES * len(answer.keys.names) // max(1, answer.size)
            # At most twice the last one: values further on may be larger.
            self._limit = max(1, min(fitting, 2 * self._limit, self._largest))
