from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer as FastTokenizer

from budgetformer import Tokenizer
from budgetformer.tokenizer import CLS, SEP, SPECIAL_TOKENS, Encoding, words

KNOWN = (
    *("good", "film", "don't", "over-think", "NAÏVE", "École", "e\u0301cole", "中文", "電影"),
    *("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<unk>", "##", "##m", "_", "…", "$5"),
    *("👩🏽\u200d🚀", "👍🏿", "தமிழ்", "İ", "ẞ", "ﬁlm", "\u202egood\u202c", "a\0b", "\ufffd", "힣"),
)
TEXT = st.lists(st.one_of(st.text(max_size=6), st.sampled_from(KNOWN)), max_size=12).map(" ".join)


def bert_form(piece: str) -> str:
    """What BERT's rules make of a stretch of text: no accents, no control characters, lower."""
    decomposed = unicodedata.normalize("NFD", piece)
    kept = [c for c in decomposed if unicodedata.category(c) not in ("Mn", "Cc", "Cf")]
    return "".join(c.lower() for c in kept)


def disappears(c: str) -> bool:
    """Whether BERT's rules drop a character, or split at it."""
    category = unicodedata.category(c)
    return c.isspace() or category[0] in "CZ" or category == "Mn" or c == "\ufffd"


def inner(encoding: Encoding) -> range:
    return range(1, len(encoding.ids) - 1)


@given(TEXT)
@example("e\u0301\u0301cole — 👩🏽\u200d🚀 தமிழ்நாடு 中文!")
@example("I love [PAD] and [CLS] <unk>")
def test_offsets_reproduce_the_text(tokenizer: Tokenizer, text: str) -> None:
    encoding = tokenizer.encode(text, max_len=10_000)
    place = 0
    for i in inner(encoding):
        start, end = encoding.offsets[i]
        assert place <= start < end <= len(text)
        # Only what the rules drop may lie between pieces.
        assert all(disappears(c) for c in text[place:start]), text[place:start]
        if not encoding.unknown[i]:
            assert bert_form(text[start:end]) == encoding.tokens[i].removeprefix("##")
        place = end
    assert all(disappears(c) for c in text[place:])


@given(TEXT)
@example("I love [PAD] and [CLS] <unk> [SEP][MASK][UNK] [pad]")
def test_typed_special_tokens_are_text(tokenizer: Tokenizer, text: str) -> None:
    encoding = tokenizer.encode(text, max_len=10_000)
    placed = {tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}
    assert encoding.ids[0] == tokenizer.cls_id and encoding.ids[-1] == tokenizer.sep_id
    assert not placed & set(encoding.ids[1:-1])
    assert encoding.special == (True, *([False] * (len(encoding.ids) - 2)), True)
    ids = tokenizer.encode_ids([text], max_len=10_000)[0].ids
    assert tuple(ids.tolist()) == encoding.ids


def test_typed_special_tokens_are_bracket_word_bracket(tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode("[PAD] [CLS]<unk>")
    assert encoding.tokens == (CLS, "[", "pad", "]", "[", "cls", "]", "<", "unk", ">", SEP)
    assert not any(encoding.unknown)


def test_a_file_that_registers_special_tokens_does_not_match_them_either(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path)
    fast = FastTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    fast.add_special_tokens(list(SPECIAL_TOKENS))
    fast.enable_truncation(4)
    fast.enable_padding(length=9)
    assert fast.encode("[PAD]").ids[0] == tokenizer.pad_id
    fast.save(str(tmp_path / "tokenizer.json"))
    assert len(json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]) == 5
    loaded = Tokenizer.from_pretrained(tmp_path)
    text = "I love [PAD] and [CLS] good films"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.encode_ids([text])[0].ids.tolist() == list(tokenizer.encode(text).ids)


def test_pieces_and_unknown_words(tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode("Good filmactor ☃ film")
    assert encoding.tokens[1] == "good" and encoding.tokens[-2] == "film"
    assert [encoding.unknown[i] for i in inner(encoding)].count(True) == 1
    assert encoding.offsets[encoding.unknown.index(True)] == (15, 16)
    assert "".join(t.removeprefix("##") for t in encoding.tokens[2:-3]) == "filmactor"


@given(TEXT, st.integers(8, 20))
def test_truncation_says_where(tokenizer: Tokenizer, text: str, max_len: int) -> None:
    whole = tokenizer.encode(text, max_len=10_000)
    short = tokenizer.encode(text, max_len=max_len)
    if len(whole.ids) <= max_len:
        assert short == whole and not short.truncated and short.cut == (None, None)
        return
    assert len(short.ids) == max_len and short.truncated
    kept = max_len - 2
    assert short.ids[1:-1] == whole.ids[1 : kept + 1]
    assert short.offsets[1:-1] == whole.offsets[1 : kept + 1]
    assert short.cut == (whole.offsets[kept + 1][0], None)
    assert short.ids[-1] == tokenizer.sep_id


@pytest.mark.parametrize(
    ("first", "second", "kept_first", "kept_second"),
    [
        # 13 tokens leave room for 10 pieces beside [CLS] and two [SEP].
        (10, 0, 10, 0),
        (4, 6, 4, 6),
        (20, 3, 7, 3),
        (3, 20, 3, 7),
        (20, 20, 5, 5),
        (6, 7, 5, 5),
        (6, 5, 5, 5),
        (8, 4, 6, 4),
        (11, 0, 10, 0),
        (0, 11, 0, 10),
    ],
)
def test_pairs_lose_from_the_longer_text(
    tokenizer: Tokenizer, first: int, second: int, kept_first: int, kept_second: int
) -> None:
    a, b = "good " * first, "bad " * second
    encoding = tokenizer.encode(a, b, max_len=13)
    assert encoding.tokens == (
        CLS,
        *["good"] * kept_first,
        SEP,
        *["bad"] * kept_second,
        SEP,
    )
    assert encoding.segments == (0,) * (kept_first + 2) + (1,) * (kept_second + 1)
    assert encoding.cut == (
        5 * kept_first if kept_first < first else None,
        4 * kept_second if kept_second < second else None,
    )
    (ids,) = tokenizer.encode_ids([a], [b], max_len=13)
    assert tuple(ids.ids.tolist()) == encoding.ids
    assert tuple(ids.segments.tolist()) == encoding.segments


def test_words_stay_as_typed(tokenizer: Tokenizer) -> None:
    text = "don't over-think it… (NAÏVE) e\u0301cole 中文 good"
    encoding = tokenizer.encode(text)
    found = words(encoding, text)
    assert [text[w.start : w.end] for w in found] == [
        "don't", "over-think", "it", "…", "(", "NAÏVE", ")", "e\u0301cole", "中文", "good",
    ]  # fmt: skip
    assert [i for w in found for i in w.tokens] == list(inner(encoding))


@given(TEXT, TEXT)
def test_every_piece_belongs_to_one_word(tokenizer: Tokenizer, a: str, b: str) -> None:
    encoding = tokenizer.encode(a, b, max_len=40)
    found = words(encoding, a, b)
    pieces = [i for word in found for i in word.tokens]
    assert pieces == [i for i, special in enumerate(encoding.special) if not special]
    for word in found:
        assert {encoding.segments[i] for i in word.tokens} == {word.segment}
        assert word.start == encoding.offsets[word.tokens[0]][0]
        assert word.end == encoding.offsets[word.tokens[-1]][1]


def test_an_emoji_with_skin_tone_and_joiner_is_covered(tokenizer: Tokenizer) -> None:
    text = "good 👩🏽\u200d🚀!"
    encoding = tokenizer.encode(text)
    covered = "".join(text[slice(*encoding.offsets[i])] for i in inner(encoding))
    assert covered == "good👩🏽\u200d🚀!"


@pytest.mark.parametrize("text", ["", "  ", "\n\t", "\u200b\u200d", "\x00\x01", "\u0301"])
def test_nothing_to_read(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text).tokens == (CLS, SEP)


def test_batch_pads_and_masks(tokenizer: Tokenizer) -> None:
    rows = [tokenizer.encode("good"), tokenizer.encode("a good film")]
    batch = tokenizer.batch(rows)
    pad = tokenizer.pad_id
    assert batch.ids.tolist() == [[*rows[0].ids, pad, pad], list(rows[1].ids)]
    assert batch.mask.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert batch.segments.tolist() == [[0] * 5, [0] * 5]
    assert tokenizer.batch(tokenizer.encode_ids(["good", "a good film"])).ids.equal(batch.ids)


def test_save_and_load(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]
    loaded = Tokenizer.from_pretrained(tmp_path)
    text = "Boring films & 中文 [PAD] naïve don't"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.vocab_size == tokenizer.vocab_size


def test_an_interrupted_save_leaves_the_old_file(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.save_pretrained(tmp_path)
    before = (tmp_path / "tokenizer.json").read_bytes()

    def full_disk(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        Tokenizer.train(["other words other words"], 100).save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == before


def test_the_same_texts_give_the_same_vocabulary(tmp_path: Path) -> None:
    texts = ["to be or not to be", "that is the question to be"] * 3
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Tokenizer.train(texts, 100).save_pretrained(tmp_path / name)
        files.append((tmp_path / name / "tokenizer.json").read_bytes())
    assert files[0] == files[1]
    vocab = json.loads(files[0])["model"]["vocab"]
    assert len(vocab) <= 100
    assert sorted(vocab.values()) == list(range(len(vocab)))
    assert {"be", "to", *SPECIAL_TOKENS} <= set(vocab)


def test_a_lacking_special_token_is_named(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["[QUIET]"] = content["model"]["vocab"].pop("[MASK]")
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"tokenizer\.json.*\[MASK\]"):
        Tokenizer.from_pretrained(tmp_path)


def test_vocab_size_is_what_the_largest_id_needs(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["good"] = 5000
    path.write_text(json.dumps(content))
    assert Tokenizer.from_pretrained(tmp_path).vocab_size == 5001


def test_ids_are_compact(tokenizer: Tokenizer) -> None:
    (row,) = tokenizer.encode_ids(["a good film"])
    assert row.ids.dtype == np.int32 and row.segments.dtype == np.int8


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=30))
def test_a_vocabulary_never_exceeds_its_size(texts: list[str]) -> None:
    assert Tokenizer.train([*texts, *texts], 100).vocab_size <= 100


def test_half_a_surrogate_pair_is_no_crash(tokenizer: Tokenizer) -> None:
    text = "good \ud83d film\udce9"
    encoding = tokenizer.encode(text)
    assert encoding.tokens == (CLS, "good", "film", SEP)
    assert [text[slice(*encoding.offsets[i])] for i in inner(encoding)] == ["good", "film"]
    assert tokenizer.encode_ids([text])[0].ids.tolist() == list(encoding.ids)
    assert Tokenizer.train([text, text], 100).encode("film").tokens == (CLS, "film", SEP)
