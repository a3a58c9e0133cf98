"""WordPiece tokenizer with offsets into the text as typed.

The special tokens [PAD] [UNK] [CLS] [SEP] [MASK] are ids that we place ourselves. They are never
matched inside a user's text: there, "[PAD]" is a bracket, a word and a bracket.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordPieceTrainer
from torch import Tensor

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
FILE_NAME = "tokenizer.json"
ALPHABET_SIZE = 400
SURROGATE = re.compile("[\ud800-\udfff]")
WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class Encoding:
    """One text, or one pair of texts, as the model sees it."""

    ids: tuple[int, ...]
    """Token ids, [CLS] and [SEP] included."""
    tokens: tuple[str, ...]
    """The pieces as the vocabulary spells them; "##" marks a piece inside a word."""
    segments: tuple[int, ...]
    """0 for the first text, 1 for the second."""
    offsets: tuple[tuple[int, int], ...]
    """[start, end) of each piece in its own text, in characters; (0, 0) for special tokens."""
    special: tuple[bool, ...]
    """True at [CLS] and [SEP]."""
    unknown: tuple[bool, ...]
    """True where the vocabulary has no pieces for the word."""
    cut: tuple[int | None, int | None]
    """Where each text was cut to fit, in characters; None where it was not."""

    @property
    def truncated(self) -> bool:
        """Whether any part of the input was left out."""
        return self.cut != (None, None)


@dataclass(frozen=True)
class Word:
    """A word as typed, made of one or more pieces."""

    segment: int
    """0 for the first text, 1 for the second."""
    start: int
    """First character in its text."""
    end: int
    """One past the last character."""
    tokens: tuple[int, ...]
    """Positions of its pieces in the encoding."""


class TokenIds(NamedTuple):
    """What the model reads of an input, without what a screen shows of it."""

    ids: NDArray[np.int32]
    """Token ids, [CLS] and [SEP] included."""
    segments: NDArray[np.int8]
    """0 for the first text, 1 for the second."""


class Batch(NamedTuple):
    """Encodings padded to one length."""

    ids: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    segments: Int[Tensor, "B T"]


class Tokenizer:
    """Lower-casing WordPiece with BERT's word rules."""

    def __init__(self, fast: FastTokenizer) -> None:
        """Wrap a tokenizers.Tokenizer whose vocabulary holds the five special tokens.

        Raises:
            ValueError: if a special token is missing from the vocabulary.
        """
        vocab = fast.get_vocab()
        missing = [token for token in SPECIAL_TOKENS if token not in vocab]
        if missing:
            raise ValueError(f"the vocabulary lacks the special token {missing[0]}")
        # A file may bring matchable special tokens, truncation and padding of its own.
        fast.encode_special_tokens = True
        fast.no_truncation()
        fast.no_padding()
        self._fast = fast
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            vocab[token] for token in SPECIAL_TOKENS
        )

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Tokenizer:
        """Learn a vocabulary of at most vocab_size pieces; the same texts give the same one."""
        texts, fast = [_unicode(text) for text in texts], _word_piece({})
        room = (vocab_size - len(SPECIAL_TOKENS)) // 2
        alphabet = _alphabet(texts, fast, min(ALPHABET_SIZE, room))
        # The trainer numbers what it is given in order, but what it finds in an order that changes
        # from call to call, and breaks ties between merges by number. So it is given all characters
        # and their "##" forms.
        trainer = WordPieceTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=[*SPECIAL_TOKENS, *(f"##{c}" for c in alphabet)],
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        fast.train_from_iterator(texts, trainer)
        # Training registers the special tokens as matchable; a plain vocabulary does not.
        return cls.from_vocab(fast.get_vocab(with_added_tokens=True))

    @classmethod
    def from_vocab(cls, vocab: dict[str, int]) -> Tokenizer:
        """Make a tokenizer of pieces and their ids, special tokens among them."""
        return cls(_word_piece(vocab))

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> Tokenizer:
        """Read tokenizer.json from a checkpoint folder.

        Raises:
            ValueError: if the file is missing or damaged.
        """
        path = Path(directory) / FILE_NAME
        if not path.is_file():
            raise ValueError(f"{path} is missing")
        try:
            fast = FastTokenizer.from_file(str(path))
        except Exception as error:  # the Rust library raises plain Exception
            raise ValueError(f"{path} is not a tokenizer file: {error}") from error
        try:
            return cls(fast)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def save_pretrained(self, directory: str | Path) -> None:
        """Write tokenizer.json to a folder, under a temporary name first."""
        path = Path(directory) / FILE_NAME
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(self._fast.to_str(pretty=True), encoding="utf-8")
        os.replace(temporary, path)

    @property
    def pieces(self) -> list[str]:
        """The vocabulary in the order of the ids."""
        vocab = self._fast.get_vocab()
        return sorted(vocab, key=vocab.__getitem__)

    @property
    def vocab_size(self) -> int:
        """Number of ids, special tokens included: one more than the largest id."""
        return 1 + max(self._fast.get_vocab().values())

    def encode_ids(
        self, texts: Sequence[str], text_pairs: Sequence[str] | None = None, max_len: int = 512
    ) -> list[TokenIds]:
        """Encode many texts, or pairs, as `encode` does one, in a hundredth of the memory."""
        columns = [texts] if text_pairs is None else [texts, text_pairs]
        parts = [
            self._fast.encode_batch_fast([_unicode(t) for t in c], add_special_tokens=False)
            for c in columns
        ]
        encoded = []
        for row in zip(*parts, strict=True):
            kept = _fit([len(part) for part in row], max_len - 1 - len(row))
            ids, segments = [self.cls_id], [0]
            for segment, (part, n) in enumerate(zip(row, kept, strict=True)):
                ids += [*part.ids[:n], self.sep_id]
                segments += [segment] * (n + 1)
            encoded.append(TokenIds(np.array(ids, np.int32), np.array(segments, np.int8)))
        return encoded

    def batch(self, inputs: Sequence[TokenIds | Encoding]) -> Batch:
        """Pad inputs to the longest of them."""
        lengths = torch.tensor([len(row.ids) for row in inputs])
        longest = int(lengths.max())
        ids = torch.full((len(inputs), longest), self.pad_id)
        segments = torch.zeros((len(inputs), longest), dtype=torch.long)
        for row, n, padded, segment in zip(inputs, lengths, ids, segments, strict=True):
            padded[:n] = torch.as_tensor(row.ids)
            segment[:n] = torch.as_tensor(row.segments)
        return Batch(ids, torch.arange(longest) < lengths.unsqueeze(1), segments)

    def encode(self, text: str, text_pair: str | None = None, max_len: int = 512) -> Encoding:
        """Turn one text, or a pair, into ids: [CLS] text [SEP] or [CLS] text [SEP] pair [SEP].

        What does not fit is cut from the end of the longer text; `Encoding.cut` says where.
        """
        texts = [text] if text_pair is None else [text, text_pair]
        parts = [self._fast.encode(_unicode(part), add_special_tokens=False) for part in texts]
        kept = _fit([len(part) for part in parts], max_len - 1 - len(parts))
        ids, tokens, segments, offsets = [self.cls_id], [CLS], [0], [(0, 0)]
        cut: list[int | None] = [None, None]
        for segment, (text, part, n) in enumerate(zip(texts, parts, kept, strict=True)):
            if n < len(part):
                cut[segment] = part.offsets[n][0]
                part.truncate(n)
            ids += [*part.ids, self.sep_id]
            tokens += [*part.tokens, SEP]
            segments += [segment] * (n + 1)
            offsets += [(start, _with_marks(text, end)) for start, end in part.offsets]
            offsets.append((0, 0))
        return Encoding(
            tuple(ids),
            tuple(tokens),
            tuple(segments),
            tuple(offsets),
            tuple(token_id in (self.cls_id, self.sep_id) for token_id in ids),
            tuple(token_id == self.unk_id for token_id in ids),
            (cut[0], cut[1]),
        )


def words(encoding: Encoding, *texts: str) -> list[Word]:
    """Group the pieces of an encoding into words, with the texts that were encoded.

    A word keeps its inner apostrophes and hyphens ("don't", "over-think"); other punctuation
    stands alone.
    """
    starts = [
        {i: match.start() for match in WORD.finditer(text) for i in range(*match.span())}
        for text in texts
    ]
    groups: dict[tuple[int, int], list[int]] = {}
    for position, (segment, (start, _)) in enumerate(
        zip(encoding.segments, encoding.offsets, strict=True)
    ):
        if not encoding.special[position]:
            groups.setdefault((segment, starts[segment].get(start, start)), []).append(position)
    return [
        Word(segment, encoding.offsets[group[0]][0], encoding.offsets[group[-1]][1], tuple(group))
        for (segment, _), group in groups.items()
    ]


def _word_piece(vocab: dict[str, int]) -> FastTokenizer:
    fast = FastTokenizer(WordPiece(vocab, unk_token=UNK, max_input_chars_per_word=100))
    fast.normalizer = BertNormalizer(lowercase=True)
    fast.pre_tokenizer = BertPreTokenizer()
    return fast


def _alphabet(texts: Iterable[str], fast: FastTokenizer, size: int) -> list[str]:
    """Return the commonest characters of the texts after BERT's rules, in a fixed order."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(fast.normalizer.normalize_str(text))
    known = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    return sorted(known[:size])


def _unicode(text: str) -> str:
    """Replace half surrogate pairs, which JSON and odd bytes can bring and Rust refuses."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def _with_marks(text: str, end: int) -> int:
    """Move the end of a piece past the accents, joiners and selectors that belong to it."""
    while end < len(text) and unicodedata.category(text[end]) in ("Mn", "Mc", "Me", "Cf"):
        end += 1
    return end


def _fit(lengths: list[int], room: int) -> list[int]:
    """Shorten the longer part first until all fit in `room` tokens."""
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    shorter = min(min(lengths), room // 2)
    longer = room - shorter
    return [shorter, longer] if lengths[0] <= lengths[1] else [longer, shorter]
