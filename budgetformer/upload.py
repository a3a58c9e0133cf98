"""Checkpoints from elsewhere: checked before anything in them is used.

Each step costs only what the steps before it have bounded: the configuration before a model is
made, shapes before weights are read, weights before a text is classified.
"""

from __future__ import annotations

import json
import math
import tempfile
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open

from budgetformer import archive
from budgetformer.archive import CARD, MOST_BYTES, NEEDED
from budgetformer.checkpoint import CONFIG, SCALE, WEIGHTS, Checkpoint, is_matrix
from budgetformer.config import ModelConfig, from_dict, write_json
from budgetformer.library import Deleted, Library, valid_name
from budgetformer.model import BudgetFormer
from budgetformer.model_facts import MOST_HEADER, SOURCE
from budgetformer.tokenizer import FILE_NAME as TOKENIZER
from budgetformer.tokenizer import SPECIAL_TOKENS, Tokenizer
from budgetformer.trace import predict

MOST = {
    "vocab_size": 200_000,
    "n_layers": 48,
    "n_heads": 64,
    "d_model": 2_048,
    "d_ff": 8_192,
    "d_router": 2_048,
    "max_len": 4_096,
}
"""The largest shape that is opened here, field by field."""
MOST_PARAMETERS = 100_000_000
"""In memory a parameter takes 4 bytes, and several models are kept there."""
MOST_PAIRS = 2**26
"""Limit on n_heads · max_len²: the attention maps of one layer take 4 bytes for each."""
MOST_LABELS, LONGEST_LABEL = 1_000, 100
DEEPEST_JSON = 20
LONGEST_REASON = 300
FLOATS = ("F16", "BF16", "F32")
# They turn the direction of the text that follows, so that a label reads as another one.
TURNING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Added:
    """An upload that was taken in."""

    name: str
    """The model's name in the list."""
    replaced: Deleted | None
    """The model that had the name before, now in the trash."""
    left_out: tuple[str, ...]
    """Files of the archive that no model needs."""


def receive(library: Library, file: BinaryIO, name: str, replace: bool = False) -> Added:
    """Take a zip archive in as an uploaded model; nothing of one that is refused stays.

    Args:
        library: where it goes.
        file: the archive.
        name: of the model, without prefix.
        replace: put a model that has this name into the trash; False refuses.

    Raises:
        ValueError: with the reason, in one line.
    """
    name = valid_name(name)
    if library.is_taken(name) and not replace:
        raise ValueError(f"the name {name} is taken: choose another one")
    try:
        with library.staging() as place:
            folder = place / name
            folder.mkdir()
            left_out = archive.unpack(file, folder)
            check(folder)
            write_json(folder / SOURCE, {"added": now()})
            new, replaced = library.add(folder, name, replace)
    except OSError as error:
        raise ValueError(f"it cannot be stored here: {error.strerror or error}") from error
    return Added(new, replaced, tuple(left_out))


def check(folder: Path) -> Checkpoint:
    """Check a folder from elsewhere, and return the model in it.

    Raises:
        ValueError: with the reason, in one line.
    """
    try:
        config = _check_config(folder)
        for path in sorted(folder.glob("*.json")):
            _read_json(path)
        _check_card(folder / CARD)
        _check_tokenizer(folder, config)
        _check_weights(folder / WEIGHTS, config)
        checkpoint = Checkpoint.from_pretrained(folder)
        for name, parameter in checkpoint.model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise ValueError(f"{WEIGHTS}: {name} holds a number that is NaN or infinite")
        _check_answer(checkpoint)
    except ValueError as error:
        # A file may put anything into a reason, at any length.
        reason = " ".join(str(error).replace(f"{folder}/", "").split())
        raise ValueError(reason[:LONGEST_REASON]) from error
    return checkpoint


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check_config(folder: Path) -> ModelConfig:
    """Bound the shape: what is made and read after this is as large as it says."""
    for name in NEEDED:
        if not (folder / name).is_file():
            raise ValueError(f"{name} is missing")
    values = _read_json(folder / CONFIG)
    for name, most in MOST.items():
        value = values.get(name)
        if isinstance(value, int) and value > most:
            raise ValueError(f"{CONFIG}: {name} is larger than {most:,}, the most opened here")
    labels = values.get("labels")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{CONFIG}: labels must be a list of texts")
    if len(labels) > MOST_LABELS:
        raise ValueError(f"{CONFIG}: {len(labels):,} labels; at most {MOST_LABELS:,} are allowed")
    for label in labels:
        _check_label(label)
    try:
        config = from_dict(ModelConfig, values)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{CONFIG}: {error}") from error
    if config.n_heads * config.max_len**2 > MOST_PAIRS:
        raise ValueError(
            f"{CONFIG}: {config.n_heads} heads on {config.max_len:,} tokens need too much memory; "
            f"heads × tokens² may be {MOST_PAIRS:,} at most"
        )
    return config


def _check_label(label: str) -> None:
    if not label.strip() or len(label) > LONGEST_LABEL:
        raise ValueError(
            f"{CONFIG}: the label {label[:40]!r} has {len(label):,} characters; 1 to "
            f"{LONGEST_LABEL} are allowed"
        )
    for sign in label:
        if unicodedata.category(sign) in ("Cc", "Cs") or sign in TURNING:
            raise ValueError(
                f"{CONFIG}: the label {label!r} holds the control character U+{ord(sign):04X}"
            )


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that nobody vouches for."""
    most = MOST_BYTES[".json"]
    if path.stat().st_size > most:
        raise ValueError(f"{path.name} is larger than {most // 2**20} MB")
    try:
        values = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        deep = _depth(values, DEEPEST_JSON) < 0
    except RecursionError:
        deep = True
    except ValueError as error:
        raise ValueError(f"{path.name} is not valid JSON: {error}") from error
    if deep:
        raise ValueError(f"{path.name} is nested more than {DEEPEST_JSON} deep")
    if not isinstance(values, dict):
        raise ValueError(f"{path.name} must hold a JSON object, not {type(values).__name__}")
    return values


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _depth(value: Any, left: int) -> int:
    """Return how many more levels would be allowed; -1 where there are too many."""
    if not isinstance(value, dict | list):
        return left
    if left == 0:
        return -1
    items = value.values() if isinstance(value, dict) else value
    return min((_depth(item, left - 1) for item in items), default=left - 1)


def _check_card(path: Path) -> None:
    if path.is_file():
        try:
            path.read_text(encoding="utf-8")
        except ValueError as error:
            raise ValueError(f"{CARD} is no UTF-8 text: {error}") from error


def _check_tokenizer(folder: Path, config: ModelConfig) -> None:
    """Accept what this project writes, whatever the vocabulary, and nothing else.

    Other tokenizers may bring rules that never end on some text, or that make it a thousand times
    longer.
    """
    values = _read_json(folder / TOKENIZER)
    model = values.get("model")
    vocab = model.pop("vocab", None) if isinstance(model, dict) else None
    if not isinstance(vocab, dict):
        raise ValueError(f"{TOKENIZER} has no vocabulary")
    ids = list(vocab.values())
    if not all(type(i) is int and 0 <= i < config.vocab_size for i in ids):
        raise ValueError(
            f"{TOKENIZER}: ids must be whole numbers from 0 to {config.vocab_size - 1:,}, as "
            f"{CONFIG} says"
        )
    if len(set(ids)) < len(ids):
        raise ValueError(f"{TOKENIZER}: two pieces share an id")
    for name, wanted in _plain_tokenizer().items():
        if values.get(name) != wanted:
            raise ValueError(
                f"{TOKENIZER}: its {name} is not that of a lower-casing WordPiece, the only kind "
                "that is opened here"
            )


def _plain_tokenizer() -> dict[str, Any]:
    """Return what tokenizer.json holds besides the vocabulary."""
    with tempfile.TemporaryDirectory() as place:
        vocab = {piece: index for index, piece in enumerate(SPECIAL_TOKENS)}
        Tokenizer.from_vocab(vocab).save_pretrained(place)
        values = _read_json(Path(place) / TOKENIZER)
    del values["model"]["vocab"]
    return values


def _check_weights(path: Path, config: ModelConfig) -> None:
    """Compare names, shapes and kinds of numbers before any weight is read."""
    weights = BudgetFormer.without_weights(config).state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    parameters = sum(math.prod(shape) for shape in shapes.values())
    if parameters > MOST_PARAMETERS:
        raise ValueError(
            f"{CONFIG}: a model of {parameters:,} parameters; at most {MOST_PARAMETERS:,} are "
            "opened here"
        )
    with path.open("rb") as file:
        if int.from_bytes(file.read(8), "little") > MOST_HEADER:
            raise ValueError(f"{WEIGHTS} is damaged: its header is too long")
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            found = {k: (s.get_dtype(), tuple(s.get_shape())) for k, s in slices.items()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{WEIGHTS} is damaged: {error}") from error
    for name, shape in shapes.items():
        if name not in found:
            raise ValueError(f"{WEIGHTS}: {name} is missing")
        dtype, own = found.pop(name)
        if own != shape:
            raise ValueError(f"{WEIGHTS}: {name} has the shape {own}, {CONFIG} asks for {shape}")
        if dtype == "I8" and is_matrix(name, torch.empty(shape, device="meta")):
            scale = found.pop(name + SCALE, None)
            if scale is None or scale[0] not in FLOATS or scale[1] != (*shape[:-1], 1):
                raise ValueError(f"{WEIGHTS}: {name} is of 8 bits and lacks its scale for each row")
        elif dtype not in FLOATS:
            raise ValueError(f"{WEIGHTS}: {name} is stored as {dtype}; known: {FLOATS}")
    if found:
        raise ValueError(f"{WEIGHTS} holds {min(found)!r}, which the model has not")


def _check_answer(checkpoint: Checkpoint) -> None:
    """Let the model answer once."""
    pair = "Another one." if checkpoint.config.n_segments == 2 else None
    try:
        trace = predict(checkpoint, "A plain text.", pair)
    except Exception as error:  # whatever it is, this model cannot be used
        raise ValueError(f"the model cannot answer a text: {error}") from error
    numbers = [*trace.probabilities.values()]
    for layer in trace.layers:
        numbers += [layer.budget, *layer.scores, *layer.head_probabilities]
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError("the model answers a plain text with NaN or infinity")
