from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetformer.edits import (
    Edit,
    clusters,
    cut,
    deletions,
    insertions,
    negations,
    repeated,
    shorter,
    spread,
    typos,
)
from budgetformer.tokenizer import WORD


def spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text)]


def texts(edits: list[Edit]) -> list[str]:
    return [edit.text for edit in edits]


def test_deletions() -> None:
    assert texts(deletions("a good, long (film)", spans("a good, long (film)"))) == [
        "good, long (film)",
        "a, long (film)",
        "a good, (film)",
        "a good, long ()",
    ]
    assert texts(deletions("film", [(0, 4)])) == [""] and deletions("…", []) == []
    assert cut("one two three", 4, 13) == "one" and cut("one two", 0, 3) == "two"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("It is good", ["It is not good"]),
        ("It is not good", ["It is good"]),
        ("I can't and won’t", ["I can and won’t", "I can't and will"]),
        ("DON'T!", ["DO!"]),
        ("We cannot", ["We can"]),
        ("Never was", ["was", "Never was not"]),
        ("It isn't", ["It is"]),
        ("a nice film", []),
        ("island promise", []),  # "is" and "is" inside words
    ],
)
def test_negations(text: str, after: list[str]) -> None:
    assert texts(negations(text, spans(text))) == after


def test_typos_swap_two_neighbours() -> None:
    text = "the wonderful café 2024 aaaa xyz"
    edits = typos(text, spans(text), seed=3)
    assert [edit.detail.split(" → ")[0] for edit in edits] == ["wonderful", "café"]
    assert edits == typos(text, spans(text), seed=3)
    assert len({tuple(texts(typos(text, spans(text), seed))) for seed in range(20)}) > 3
    for edit in edits:
        changed = [i for i in range(len(text)) if text[i] != edit.text[i]]
        assert len(edit.text) == len(text) and len(changed) == 2
        i, j = changed
        assert j == i + 1 and text[i] == edit.text[j] and text[j] == edit.text[i]


def test_accents_move_with_their_letters() -> None:
    assert clusters("ne\u0301e\u0323\u0301x") == ["n", "e\u0301", "e\u0323\u0301", "x"]
    for seed in range(20):
        [edit] = typos("abe\u0301d", [(0, 5)], seed)
        assert edit.text in ("ae\u0301bd", "abde\u0301")


def test_shorter() -> None:
    text = "A good film. Really good! See it"
    assert texts(shorter(text, spans(text))) == [
        "A good film.",
        "Really good! See it",
        "A good film. Really good!",
    ]
    assert texts(shorter("好。很好。看", spans("好。很好。看")))[-1] == "好。很好。"
    assert shorter("word", [(0, 4)]) == [] and shorter("", []) == []
    assert texts(shorter("one two.", spans("one two."))) == ["one", "two."]


def test_repeated_and_insertions() -> None:
    assert texts(repeated("a film")) == ["a film a film"]
    assert texts(insertions("a film", [(2, 6)], ["not", "but"])) == ["a not film", "a but film"]


@given(st.text(max_size=40), st.integers(0, 9))
def test_any_text_is_edited_without_harm(text: str, seed: int) -> None:
    found = spans(text)
    removed = deletions(text, found)
    assert len(removed) == len(found)
    for edit, (a, b) in zip(removed, found, strict=True):
        assert b - a <= len(text) - len(edit.text) <= b - a + 1
    for edit in typos(text, found, seed):
        assert sorted(edit.text) == sorted(text) and edit.text != text
    for edit in shorter(text, found):
        assert edit.text in text
    negations(text, found)


def test_spread() -> None:
    edits = [Edit("delete", str(i), "") for i in range(10)]
    assert [edit.detail for edit in spread(edits, 5)] == ["0", "2", "4", "6", "8"]
    assert spread(edits, 99) == edits and spread(edits, 0) == [] == spread([], 3)
