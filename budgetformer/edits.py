"""Small edits of a text, by stated rules. Strings in, strings out; no model.

delete    one word is left out, or a run of them, with one of the spaces around
negate    "not" and "never" go; "n't" goes ("can't" → "can", "won't" → "will", "shan't" → "shall");
          after an auxiliary (is, was, did, could, …) that no such word follows, "not" comes in
typo      two neighbouring letters in a word of four or more change places, the first stays
shorten   the first half of the words, the last half, all sentences but the last
repeat    the text twice
insert    a given word before a word

Accents and joiners move with their letters. A span is [start, end) in characters.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

EditKind = Literal["delete", "negate", "typo", "shorten", "repeat", "insert"]
Span = tuple[int, int]

AUXILIARY = re.compile(
    "is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must"
)
IRREGULAR = {"can't": "can", "cannot": "can", "won't": "will", "shan't": "shall"}
NEGATIONS = frozenset(("not", "never"))
SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[」』”’）]*\s*")  # noqa: RUF001
SHORTEST_TYPO = 4


@dataclass(frozen=True)
class Edit:
    """A text after one edit."""

    kind: EditKind
    """Which rule."""
    detail: str
    """What was done, in a few words."""
    text: str
    """The text after it."""


def deletions(text: str, spans: Sequence[Span]) -> list[Edit]:
    """Leave out one word at a time."""
    return [Edit("delete", text[a:b], cut(text, a, b)) for a, b in spans]


def negations(text: str, spans: Sequence[Span]) -> list[Edit]:
    """Negate, or take a negation back, at one place at a time."""
    edits = []
    typed = [text[a:b].lower().replace("’", "'") for a, b in spans]
    for (a, b), word, following in zip(spans, typed, [*typed, ""][1:], strict=True):
        if word in NEGATIONS:
            edits.append(Edit("negate", f"{text[a:b]} removed", cut(text, a, b)))
        elif word in IRREGULAR or word.endswith("n't"):
            positive = IRREGULAR.get(word, word[:-3])
            # The typed letters stay where they agree, so that capitals do.
            new = text[a : a + len(positive)] if word.startswith(positive) else positive
            edits.append(Edit("negate", f"{text[a:b]} → {new}", text[:a] + new + text[b:]))
        elif AUXILIARY.fullmatch(word) and following not in NEGATIONS:
            edits.append(Edit("negate", f"{text[a:b]} not", text[:b] + " not" + text[b:]))
    return edits


def typos(text: str, spans: Sequence[Span], seed: int = 0) -> list[Edit]:
    """Swap two neighbouring letters, different ones, in one word at a time."""
    edits = []
    for number, (a, b) in enumerate(spans):
        letters = clusters(text[a:b])
        places = [
            i
            for i in range(1, len(letters) - 1)
            if letters[i][0].isalpha()
            and letters[i + 1][0].isalpha()
            and letters[i].lower() != letters[i + 1].lower()
        ]
        if len(letters) < SHORTEST_TYPO or not places:
            continue
        # A generator a word: a typo stays the same when another word changes its length.
        i = random.Random(f"{seed} {number}").choice(places)
        letters[i], letters[i + 1] = letters[i + 1], letters[i]
        new = "".join(letters)
        edits.append(Edit("typo", f"{text[a:b]} → {new}", text[:a] + new + text[b:]))
    return edits


def shorter(text: str, spans: Sequence[Span]) -> list[Edit]:
    """Keep the first half of the words, the last half, and all sentences but the last."""
    edits = []
    if len(spans) >= 2:
        middle = spans[len(spans) // 2][0]
        edits.append(Edit("shorten", "first half", text[:middle].rstrip()))
        edits.append(Edit("shorten", "last half", text[middle:].lstrip()))
    ends = [match.end() for match in SENTENCE_END.finditer(text) if text[match.end() :].strip()]
    if ends:
        edits.append(Edit("shorten", "without the last sentence", text[: ends[-1]].rstrip()))
    return edits


def repeated(text: str) -> list[Edit]:
    """Say it twice."""
    return [Edit("repeat", "twice", f"{text} {text}")]


def insertions(text: str, spans: Sequence[Span], words: Sequence[str]) -> list[Edit]:
    """Put each of the words before each of the spans."""
    return [
        Edit("insert", f"{word} before {text[a:b]}", f"{text[:a]}{word} {text[a:]}")
        for a, b in spans
        for word in words
    ]


def cut(text: str, start: int, end: int) -> str:
    """Take out [start, end) and one of the spaces around it."""
    before, after = text[:start], text[end:]
    if before[-1:].isspace() and (not after or not after[0].isalnum()):
        before = before[:-1]
    elif not before[-1:].isalnum() and after[:1].isspace():
        after = after[1:]
    return before + after


def clusters(word: str) -> list[str]:
    """Split a word into letters, each with the accents and joiners that belong to it."""
    letters: list[str] = []
    for character in word:
        if letters and unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf"):
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def spread(edits: Sequence[Edit], n: int) -> list[Edit]:
    """Choose at most n of the edits, evenly over their order."""
    n = min(n, len(edits))
    return [edits[i * len(edits) // n] for i in range(n)]
