"""Checkpoint folders: a model, its tokenizer and its figures, in the Hub's conventions.

    model.safetensors  config.json  tokenizer.json  metrics.json  README.md (model card)

huggingface_hub's own mixin is not used: it falls back to pickled weights, loads incomplete weights
without a word and prints to standard output.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from budgetformer.config import (
    ModelConfig,
    StoredWeights,
    from_dict,
    read_json,
    to_dict,
    write_json,
)
from budgetformer.model import BudgetFormer
from budgetformer.tokenizer import Tokenizer

WEIGHTS, CONFIG, METRICS = "model.safetensors", "config.json", "metrics.json"
# An int8 matrix is stored beside the scale of each of its rows.
SCALE = ".scale"


@dataclass(frozen=True)
class Checkpoint:
    """A model that is ready to use: frozen, in evaluation mode, with its tokenizer."""

    model: BudgetFormer
    tokenizer: Tokenizer
    metrics: dict[str, Any] = field(default_factory=dict)
    """How it was trained and what was measured on it; see metrics.json."""
    path: Path | None = None
    """The folder it was read from."""

    def __post_init__(self) -> None:
        """Freeze the model: many users may share it."""
        self.model.eval().requires_grad_(False)

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        return self.model.config

    @classmethod
    def from_pretrained(cls, path_or_id: str | Path, revision: str | None = None) -> Checkpoint:
        """Read a checkpoint from a folder, or from the Hub by "user/name" or "user/name@revision".

        Raises:
            ValueError: if the folder is missing or a file in it is missing or damaged.
        """
        path = Path(path_or_id)
        if not path.is_dir():
            path = download(str(path_or_id), revision)
        values = read_json(path / CONFIG)
        try:
            # Without memory and random numbers, before the weights are known to fit.
            model = BudgetFormer.without_weights(from_dict(ModelConfig, values))
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{path / CONFIG}: {error}") from error
        load_weights(model, path / WEIGHTS)
        tokenizer = Tokenizer.from_pretrained(path)
        if tokenizer.vocab_size > model.config.vocab_size:
            raise ValueError(
                f"{path}: the tokenizer has {tokenizer.vocab_size} pieces, the model only "
                f"{model.config.vocab_size}"
            )
        metrics = read_json(path / METRICS) if (path / METRICS).is_file() else {}
        return cls(model, tokenizer, metrics, path)

    def save_pretrained(self, directory: str | Path, weights: StoredWeights = "fp16") -> None:
        """Write the checkpoint's files; each appears whole or not at all.

        Args:
            directory: the folder, made where it is missing.
            weights: "fp16", or "int8" for matrices of 8-bit integers with a scale a row, half the
                size. Both are read back as fp32: they change the file, not the arithmetic.
        """
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        save_tensors(pack(self.model.state_dict(), weights), directory / WEIGHTS)
        self.tokenizer.save_pretrained(directory)
        write_json(directory / METRICS, self.metrics)
        write_json(directory / CONFIG, to_dict(self.config))


def load_weights(model: BudgetFormer, path: Path) -> None:
    """Put the weights of a safetensors file into a model, in single precision.

    Raises:
        ValueError: if the file is missing, damaged or of another shape.
    """
    if not path.is_file():
        raise ValueError(f"{path} is missing")
    try:
        model.load_state_dict(unpack(load_file(path)), assign=True)
    except (SafetensorError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is damaged or of another shape: {reason}") from error


def pack(state: dict[str, torch.Tensor], weights: StoredWeights) -> dict[str, torch.Tensor]:
    """Return a model's weights as a file holds them.

    An int8 row w is round(w/a) with a = max|w|/127, so no weight moves by more than a/2.
    """
    packed = {}
    for name, tensor in state.items():
        if weights == "fp16" or not is_matrix(name, tensor):
            packed[name] = tensor.to(torch.float16).contiguous()
            continue
        scale = (tensor.abs().amax(dim=-1, keepdim=True) / 127).clamp(min=1e-12)
        packed[name] = torch.round(tensor / scale).to(torch.int8).contiguous()
        packed[name + SCALE] = scale.contiguous()
    return packed


def unpack(packed: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights that a file holds, in single precision."""
    return {
        name: tensor.float() * packed.get(name + SCALE, 1.0)
        for name, tensor in packed.items()
        if not name.endswith(SCALE)
    }


def is_matrix(name: str, parameter: torch.Tensor) -> bool:
    """Tell matrices from biases and normalisation weights; biases of heads have two dimensions."""
    return parameter.ndim >= 2 and not name.endswith("bias")


def save_tensors(
    tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file under a temporary name, then move it into place.

    Raises:
        OSError: if it cannot be written, as on a full disk; a file that was there stays.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        save_file(tensors, temporary, metadata)
    except SafetensorError as error:
        # What was written of it would keep a full disk full.
        temporary.unlink(missing_ok=True)
        raise OSError(f"{path} cannot be written: {error}") from error
    temporary.chmod(0o644)  # safetensors makes files that only their owner can read
    os.replace(temporary, path)


def download(repo_id: str, revision: str | None) -> Path:
    """Fetch a model's folder from the Hub, weights as safetensors only.

    Raises:
        ValueError: if the name is none, or the Hub does not deliver it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    repo_id, _, named = repo_id.partition("@")
    revision = revision or named or None
    if repo_id.count("/") != 1 or repo_id.startswith((".", "/")):
        raise ValueError(f"no checkpoint folder at {repo_id!r}")
    try:
        return Path(
            snapshot_download(
                repo_id, revision=revision, allow_patterns=["*.json", WEIGHTS, "README.md"]
            )
        )
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"no checkpoint folder at {repo_id!r}, and the Hub did not deliver it: {reason}"
        ) from error
