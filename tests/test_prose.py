"""Documents are short and plain: total words, long sentences, clauses as subjects, and vague phrases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose import MAX_WORDS, MIN_SHORT_SHARE, PAGES, ROOT, Sentence, count_words, sentences

TEXTS = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in PAGES}


def test_all_pages_together_are_within_word_limit() -> None:
    words = {page: count_words(text) for page, text in TEXTS.items()}
    longest = sorted(words.items(), key=lambda row: -row[1])[:10]
    assert sum(words.values()) <= MAX_WORDS, longest


def test_nearly_all_sentences_are_short() -> None:
    all_sentences = [sentence for page, text in TEXTS.items() for sentence in sentences(page, text)]
    long_sentences = [sentence for sentence in all_sentences if sentence.is_long]
    assert len(all_sentences) > 1_000
    assert 1 - len(long_sentences) / len(all_sentences) >= MIN_SHORT_SHARE, long_sentences


@pytest.mark.parametrize("page", TEXTS)
def test_no_sentence_has_a_clause_as_its_subject(page: str) -> None:
    assert [part.text for part in sentences(page, TEXTS[page]) if part.has_clause_as_subject] == []


@pytest.mark.parametrize("page", TEXTS)
def test_no_page_has_a_vague_phrase(page: str) -> None:
    parts = sentences(page, TEXTS[page])
    assert [(part.vague_phrases, part.text) for part in parts if part.vague_phrases] == []


def test_every_page_is_in_the_list_of_pages() -> None:
    docs = ROOT / "docs"
    other_names = {path.name for path in docs.iterdir() if path.suffix != ".md"}
    assert other_names == {"bkaudit.1", "checks", "pictures"}
    assert {ROOT / "README.md", ROOT / "CONTRIBUTING.md", docs / "checks.md"} <= {*PAGES}
    assert all(isinstance(path, Path) and path.is_file() for path in PAGES)


def parts(text: str) -> list[str]:
    return [sentence.text for sentence in sentences("page.md", text)]


def test_prose_is_read_without_code_and_headings() -> None:
    text = """\
# What it is.

**What to do.** Read [the page](a.md#b). It has version 4.17.2,
e.g. `x y`.

    What is code.

```console example
What is code too.
```

<!-- What is a comment. -->

- One item
  goes on.
- Another: 10,000. End.

1. First.

| `a` | One cell. Two; three |
| --- | --- |
"""
    assert parts(text) == [
        "Read the page.", "It has version 4.17.2, e.g. CODE.", "One item goes on.", "Another: 10,000.",
        "End.", "First.", "CODE", "One cell.", "Two", "three",
    ]  # fmt: skip


def test_faults_of_a_sentence_are_found() -> None:
    assert Sentence("", "What lies there stands.").has_clause_as_subject
    assert not Sentence("", "What is it?").has_clause_as_subject
    assert Sentence("", "What lies there stands.").vague_phrases == ["lies", "stands"]
    assert Sentence("", "A client relies on understanding.").vague_phrases == []
    assert (Sentence("", "word " * 30).is_long, Sentence("", "word " * 31).is_long) == (False, True)
