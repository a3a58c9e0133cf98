"""The same text alone, padded and in a batch; a model that reads padding is found out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from budgetformer import Checkpoint, predict
from budgetformer.company import in_company
from budgetformer.tokenizer import Batch, Tokenizer

TEXTS = ["good film", "a bad film; an awful story", "fine " * 50, "the music"]


def test_a_sound_model_does_not_mind_its_company(checkpoint: Checkpoint) -> None:
    found = in_company(checkpoint, TEXTS)
    lengths = [len(predict(checkpoint, text).encoding.ids) for text in TEXTS]
    assert found.n_tokens.tolist() == lengths
    assert found.padding["batch"].tolist() == [max(lengths) - n for n in lengths]
    assert found.padding["padded"].tolist() == [min(64, 32 - n) for n in lengths]
    for name in ("padded", "batch"):
        assert found.same_heads[name].all()
        assert found.budget_difference[name].max() < 1e-5
        assert found.probability_difference[name].max() < 1e-5


def test_padding_that_is_read_is_found_out(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Tokenizer.batch

    def seen(self: Tokenizer, inputs: list[object]) -> Batch:
        batch = whole(self, inputs)  # type: ignore[arg-type]
        return Batch(batch.ids, torch.ones_like(batch.mask), batch.segments)

    monkeypatch.setattr(Tokenizer, "batch", seen)
    found = in_company(checkpoint, TEXTS)
    short = found.padding["batch"] > 0
    assert (found.probability_difference["batch"][short] > 1e-4).all()
    assert (found.probability_difference["batch"][~short] < 1e-5).all()


def test_pairs(pair_checkpoint: Checkpoint) -> None:
    found = in_company(pair_checkpoint, ["good", "a bad film"], ["fine story", "boring"])
    assert all(same.all() for same in found.same_heads.values())


def test_differences_are_those_of_predict(checkpoint: Checkpoint) -> None:
    found = in_company(checkpoint, TEXTS)
    batch = checkpoint.tokenizer.batch(
        checkpoint.tokenizer.encode_ids(TEXTS, None, checkpoint.config.max_len)
    )
    together = checkpoint.model(*batch).logits.softmax(dim=-1).numpy()
    for i, text in enumerate(TEXTS):
        alone = list(predict(checkpoint, text).probabilities.values())
        assert found.probability_difference["batch"][i] == pytest.approx(
            float(np.abs(together[i] - alone).max()), abs=1e-6
        )


def test_no_text(checkpoint: Checkpoint) -> None:
    with pytest.raises(ValueError, match="no text"):
        in_company(checkpoint, [])
