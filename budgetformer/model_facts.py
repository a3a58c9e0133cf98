"""What a model's files say about it, without reading its weights: for lists of models.

The files may come from anybody, so a figure that is no figure is left out, never an error.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from budgetformer.config import ModelConfig, from_dict, read_json
from budgetformer.library import Entry

CONFIG, METRICS, RUN, SOURCE = "config.json", "metrics.json", "run.json", "source.json"
CARD, WEIGHTS = "README.md", "model.safetensors"
MOST_HEADER = 4 * 2**20
LONGEST_CARD = 50_000
SPLITS = ("test", "validation")
NUMBERS = {"F16": "16-bit", "BF16": "16-bit", "F32": "32-bit", "I8": "8-bit"}


@dataclass(frozen=True)
class Measured:
    """What metrics.json says of one split."""

    split: str
    data: str
    """The data set; empty where the file does not say."""
    n: int
    """Examples."""
    accuracy: float
    executed_heads_frac: float | None
    """Mean of k/H."""


@dataclass(frozen=True)
class Facts:
    """A model's shape, figures and origin; None or empty where its files do not say."""

    entry: Entry
    problem: str = ""
    """Why it cannot be used, as far as the files show."""
    config: ModelConfig | None = None
    parameters: int | None = None
    numbers: str = ""
    """How its matrices are stored: "16-bit", "8-bit" or "32-bit"."""
    size_bytes: int = 0
    """Of all files in its folder."""
    measured: Measured | None = None
    """On the test split, else on the validation split."""
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Every split's numbers, as metrics.json has them."""
    metrics_text: str = ""
    """metrics.json as it is."""
    card: str = ""
    """README.md as it is: Markdown of anybody, to be shown as plain text."""
    data: str = ""
    """What it was trained on."""
    rows: int | None = None
    """Training examples."""
    seed: int | None = None
    objective: str = ""
    init: str = ""
    """Pretrained encoder that the training started from."""
    warm_start: str = ""
    """Checkpoint that the training started from."""
    teacher: str = ""
    """Checkpoint that it was distilled from."""
    since: str = ""
    """When it was trained, uploaded or fetched, in UTC; empty for shipped models."""
    commit: str = ""
    """The version on the Hub that a model from there is."""


def read_facts(entry: Entry) -> Facts:
    """Read what a model's files say about it."""
    folder = entry.folder
    problem, config = "", None
    try:
        config = from_dict(ModelConfig, read_json(folder / CONFIG))
    except (ValueError, OverflowError, RecursionError) as error:
        problem = f"{CONFIG}: {error}"
    parameters, numbers = None, ""
    try:
        parameters, numbers = _weights(folder / WEIGHTS)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        problem = problem or f"{WEIGHTS} is missing or damaged"
    metrics_text = _text(folder / METRICS)
    metrics = _read(folder / METRICS)
    run = _mapping(metrics.get("training")) or _read(folder / RUN)
    settings = _mapping(run.get("train"))
    source = _read(folder / SOURCE)
    return Facts(
        entry=entry,
        problem=problem,
        config=config,
        parameters=parameters,
        numbers=numbers,
        size_bytes=_size(folder),
        measured=measured_on(metrics),
        metrics={
            split: {name: number for name, value in _mapping(values).items()
                    if (number := _number(value)) is not None}
            for split, values in metrics.items()
            if split != "training"
        },
        metrics_text=metrics_text,
        card=_text(folder / CARD),
        data=_string(run.get("data")),
        rows=_whole(run.get("rows")),
        seed=_whole(settings.get("seed")),
        objective=_string(settings.get("objective")),
        init=_string(run.get("init")),
        warm_start=_string(run.get("warm_start")),
        teacher=_string(run.get("teacher")),
        since=_since(entry, source),
        commit=_string(source.get("commit")),
    )  # fmt: skip


def measured_on(metrics: dict[str, Any]) -> Measured | None:
    """Return the figures of the test split, else of the validation split, else None."""
    for split in SPLITS:
        values = _mapping(metrics.get(split))
        n, accuracy = _whole(values.get("n")), _number(values.get("accuracy"))
        if n is not None and accuracy is not None and 0 <= accuracy <= 1:
            heads = _number(values.get("executed_heads_frac"))
            return Measured(split, _string(values.get("data")), n, accuracy, heads)
    return None


def _weights(path: Path) -> tuple[int, str]:
    """Count the parameters by the file's header, scales of 8-bit rows left out."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= MOST_HEADER:
            raise ValueError("its header is too long")
        tensors = json.loads(file.read(length))
    tensors.pop("__metadata__", None)
    sizes: dict[str, int] = {}
    total = 0
    for name, tensor in tensors.items():
        if name.endswith(".scale") and name.removesuffix(".scale") in tensors:
            continue
        n = math.prod(map(int, tensor["shape"])) if "shape" in tensor else 0
        total += n
        sizes[tensor["dtype"]] = sizes.get(tensor["dtype"], 0) + n
    if not sizes:
        raise ValueError("it holds no weights")
    return total, NUMBERS.get(max(sizes, key=sizes.__getitem__), "")


def _since(entry: Entry, source: dict[str, Any]) -> str:
    """Return when a model came to be here; the files of a shipped one have a checkout's date."""
    if entry.kind == "shipped":
        return ""
    added = _string(source.get("added"))
    try:
        moment = (
            datetime.fromisoformat(added).astimezone(UTC)
            if added
            else datetime.fromtimestamp((entry.folder / WEIGHTS).stat().st_mtime, UTC)
        )
    except (ValueError, OSError, OverflowError):
        return ""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _size(folder: Path) -> int:
    total = 0
    for path in folder.glob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue  # it went meanwhile
    return total


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(LONGEST_CARD + 1)
    except OSError:
        return ""
    return text if len(text) <= LONGEST_CARD else text[:LONGEST_CARD] + "\n… (cut here)"


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (ValueError, RecursionError):
        return {}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**15 else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
