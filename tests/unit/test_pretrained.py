"""The BERT start, against the same encoder in transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from budgetformer.config import ModelConfig
from budgetformer.model import BudgetFormer
from budgetformer.pretrained import PretrainedEncoder
from budgetformer.tokenizer import SPECIAL_TOKENS, Tokenizer

WORDS = ["the", "cat", "sat", "on", "a", "mat", "##s", "dog", "run", "t", "h", "##e"]
TEXTS = ["The cats sat on the mat", "a dog"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BertModel]:
    """A small random BERT, saved as transformers saves it, with a WordPiece vocabulary."""
    folder = tmp_path_factory.mktemp("bert")
    # BERT's own order of special tokens, unlike ours.
    vocab = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    torch.manual_seed(0)  # noqa: TID251
    encoder = BertModel(
        BertConfig(
            vocab_size=len(vocab),
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=3,
            intermediate_size=48,
            max_position_embeddings=32,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            initializer_range=0.5,
        )
    ).eval()
    encoder.save_pretrained(folder)
    Tokenizer.from_vocab({piece: i for i, piece in enumerate(vocab)}).save_pretrained(folder)
    return folder, encoder


def start(folder: Path, n_segments: int) -> tuple[BudgetFormer, Tokenizer]:
    encoder = PretrainedEncoder(str(folder))
    tokenizer = encoder.tokenizer_for(TEXTS, 1000)
    config = ModelConfig(
        **encoder.model_fields(),
        vocab_size=tokenizer.vocab_size,
        labels=("no", "yes"),
        n_segments=n_segments,
        max_len=16,
        routed=False,
    )
    model = BudgetFormer(config).eval()
    missing, unexpected = model.load_state_dict(encoder.state(config, tokenizer), strict=False)
    assert missing == ["classifier.weight", "classifier.bias"] and unexpected == []
    return model, tokenizer


@pytest.mark.parametrize("n_segments", [1, 2])
def test_all_heads_compute_what_bert_computes(
    bert: tuple[Path, BertModel], n_segments: int
) -> None:
    folder, reference = bert
    model, tokenizer = start(folder, n_segments)
    vocab = {piece: i for i, piece in enumerate(Tokenizer.from_pretrained(folder).pieces)}
    encodings = [tokenizer.encode(TEXTS[0], TEXTS[1] if n_segments == 2 else None)]
    encodings.append(tokenizer.encode(TEXTS[1], "sat" if n_segments == 2 else None))
    batch = tokenizer.batch(encodings)
    with torch.no_grad():
        hidden = reference(
            input_ids=torch.tensor(
                [[vocab[tokenizer.pieces[i]] for i in row] for row in batch.ids]
            ),
            attention_mask=batch.mask.long(),
            token_type_ids=batch.segments,
        ).last_hidden_state
        weights = batch.mask.unsqueeze(-1).float()
        pooled = (hidden * weights).sum(1) / weights.sum(1)
        wanted = pooled @ model.classifier.weight.T + model.classifier.bias
        torch.testing.assert_close(model(*batch).logits, wanted, atol=1e-5, rtol=0)


def test_vocabulary_is_cut_to_the_texts_and_single_characters(
    bert: tuple[Path, BertModel],
) -> None:
    _, tokenizer = start(bert[0], 1)
    # "run" is in no text; "t", "h" and the pieces "##s", "##e" are single characters.
    assert tokenizer.pieces == [
        *SPECIAL_TOKENS, "the", "cat", "sat", "on", "a", "mat", "##s", "dog", "t", "h", "##e",
    ]  # fmt: skip
    assert tokenizer.encode("the").tokens == ("[CLS]", "the", "[SEP]")


def test_a_smaller_vocabulary_keeps_the_most_frequent_pieces(
    bert: tuple[Path, BertModel],
) -> None:
    encoder = PretrainedEncoder(str(bert[0]))
    # The five special tokens and the five characters stay whatever their number.
    tokenizer = encoder.tokenizer_for(["dog cat mat", "mat cat", "the mat"], 12)
    assert tokenizer.pieces == [*SPECIAL_TOKENS, "cat", "a", "mat", "##s", "t", "h", "##e"]


def test_other_kinds_of_encoders_are_refused(bert: tuple[Path, BertModel], tmp_path: Path) -> None:
    for path in bert[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    shape = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**shape, "hidden_act": "relu"}))
    with pytest.raises(ValueError, match="hidden_act must be 'gelu', got 'relu'"):
        PretrainedEncoder(str(tmp_path))


def test_missing_encoder_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no checkpoint folder at"):
        PretrainedEncoder(str(tmp_path / "nothing"))
