"""Configurations: the shape of a model and the way it is trained.

Both are frozen, validated on construction and read from and written to JSON. A field's docstring
is its help text on the command line.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
import os
import textwrap
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Norm = Literal["pre", "post"]
Rounding = Literal["floor", "nearest", "ceil"]
OutputScale = Literal["sqrt", "none"]
Budgets = Literal["layer", "shared", "static"]
Objective = Literal["aligned", "utility", "paper", "paper-mean", "requested", "dense"]
Choice = Literal["top", "bottom", "random", "shuffled"]
Precision = Literal["fp32", "bf16"]
StoredWeights = Literal["fp16", "int8"]

Config = TypeVar("Config", bound="ModelConfig | TrainConfig")


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a BudgetFormer.

    Raises:
        ValueError: if a field is out of its range, naming the field and the value.
    """

    vocab_size: int
    """Number of token ids."""
    labels: tuple[str, ...]
    """Class names, in the order of the logits."""
    n_layers: int = 2
    """Number of encoder layers, L."""
    n_heads: int = 8
    """Attention heads a layer, H."""
    d_model: int = 128
    """Model width, D; a multiple of n_heads."""
    d_ff: int = 512
    """Width of the feed-forward layer."""
    d_router: int = 32
    """Width of the budget predictor's hidden layer."""
    max_len: int = 256
    """Longest input in tokens, special tokens included."""
    n_segments: int = 1
    """1 for single texts, 2 for text pairs."""
    norm: Norm = "pre"
    """Layer normalisation before ("pre") or after ("post", as in BERT) each sub-layer."""
    dropout: float = 0.1
    """Dropout probability on embeddings and sub-layer outputs, in [0, 1)."""
    temperature: float = 0.25
    """Temperature τ of the head distribution p = softmax(z/τ) at inference; training anneals
    towards it."""
    rounding: Rounding = "floor"
    """How s·H becomes a number of heads; the paper's inference rule is floor."""
    output_scale: OutputScale = "sqrt"
    """"sqrt" multiplies the kept heads by √(H/k), so the output's size does not depend on k."""
    budgets: Budgets = "layer"
    """"layer": each layer predicts its own s. "shared": the first layer's s serves all layers.
    "static": one learned s and one learned ranking a layer for all inputs, which is pruning by
    learned head gates; a control."""
    fixed_heads: int = 0
    """A control: every input runs this many heads in each layer, the router only says which;
    a dense model runs its first heads. 0 lets the budget decide."""
    routed: bool = True
    """False gives the dense Transformer of the same shape: no router, all heads run."""

    def __post_init__(self) -> None:
        if isinstance(self.labels, list | tuple):
            object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))
        _require_types(self)
        for name in ("vocab_size", "n_layers", "n_heads", "d_model", "d_ff", "d_router"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        _require(len(self.labels) >= 2, "labels", self.labels, "at least two class names")
        _require(len(set(self.labels)) == len(self.labels), "labels", self.labels, "all different")
        _require(
            self.d_model % self.n_heads == 0,
            "d_model",
            self.d_model,
            f"a multiple of n_heads ({self.n_heads})",
        )
        _require(self.max_len >= 8, "max_len", self.max_len, "at least 8")
        _require(self.n_segments in (1, 2), "n_segments", self.n_segments, "1 or 2")
        _require(0 <= self.dropout < 1, "dropout", self.dropout, "in [0, 1)")
        _require(
            0 <= self.fixed_heads <= self.n_heads,
            "fixed_heads",
            self.fixed_heads,
            f"in [0, n_heads ({self.n_heads})]",
        )
        _require(self.temperature > 0, "temperature", self.temperature, "above 0")
        _require_choices(self)

    @property
    def d_head(self) -> int:
        """Width of one head, D/H."""
        return self.d_model // self.n_heads

    @property
    def constant_budget(self) -> bool:
        """Whether every input gets the same s."""
        return not self.routed or self.fixed_heads > 0 or self.budgets == "static"


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained.

    Raises:
        ValueError: if a field is out of its range, naming the field and the value.
    """

    objective: Objective = "aligned"
    """"paper": task, hinge on each s, entropy. "paper-mean": the same with the hinge on the batch
    mean of s. "aligned": paper-mean plus a pull of s towards the rank of the example's loss.
    "utility": s goes where heads lower this input's loss by more than their price.
    "requested": every number of heads is tried and s is not learned, so that any budget can be
    asked for from outside, as in arXiv 2605.05697; fixed_heads is what runs unasked.
    "dense": the task loss of a Transformer with all heads on."""
    epochs: int = 4
    """Passes over the training rows."""
    batch_size: int = 32
    """Examples a step."""
    lr: float = 5e-4
    """Peak learning rate of AdamW; linear warm-up, then linear decay to zero."""
    router_lr: float = 0.0
    """The same for the routers, which are new where a model starts from trained weights; 0 means
    lr."""
    weight_decay: float = 0.01
    """AdamW weight decay, on matrices only."""
    warmup: float = 0.1
    """Fraction of all steps over which the learning rate rises."""
    clip_norm: float = 1.0
    """Largest gradient norm."""
    token_dropout: float = 0.1
    """Probability that an ordinary token is replaced by [MASK] in training; it also makes [MASK]
    a meaningful "no word here" for attributions."""
    s_min: float = 0.1
    """Lower end of the budget range."""
    s_max: float = 0.5
    """Upper end of the budget range; the paper's is 0.9."""
    budget_weight: float = 1.0
    """Weight of the hinge on s; warmed up over the first third of training."""
    entropy_weight: float = 0.01
    """Weight of the entropy of p: from +weight (explore) to -weight (exploit) over training."""
    align_weight: float = 5.0
    """Weight of the alignment term; used by the aligned objective only."""
    head_price: float = 0.01
    """Nats of loss that one more head in one layer must save; used by the utility objective only,
    where it sets the average budget."""
    selection: Choice = "top"
    """A control: which k heads a training step runs. "shuffled" gives each example the budget of
    another of its batch."""
    tau_start: float = 2.0
    """Temperature of the head scores at the first step; it falls to the model's own."""
    score_noise: float = 1.0
    """Standard deviation of the noise on head scores at the first step, falling to 0."""
    distill_weight: float = 0.5
    """Share of the task loss replaced by distillation, when there is a teacher."""
    distill_temperature: float = 2.0
    """Temperature of the distillation."""
    vocab_size: int = 16000
    """Largest WordPiece vocabulary to learn from the training texts; of a pretrained encoder's, the
    pieces that occur most often in them."""
    precision: Precision = "fp32"
    """"bf16" runs matrix products of a training step in bfloat16, where the processor can."""
    weights: StoredWeights = "fp16"
    """How the checkpoint stores the weights: "int8" halves the file, by a scale a row."""
    seed: int = 0
    """Seed of the initial weights, the order of examples, dropout and noise."""
    limit: int = 0
    """Use only the first LIMIT training rows; 0 means all."""
    save_every: int = 200
    """Steps between saves of the state that --resume continues from."""

    def __post_init__(self) -> None:
        _require_types(self)
        for name in ("epochs", "batch_size", "save_every"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("lr", "clip_norm", "tau_start", "distill_temperature"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        for name in (
            "router_lr",
            "weight_decay",
            "budget_weight",
            "entropy_weight",
            "align_weight",
            "head_price",
        ):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")
        for name in ("score_noise", "limit", "seed"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")
        for name in ("warmup", "token_dropout"):
            _require(0 <= getattr(self, name) < 1, name, getattr(self, name), "in [0, 1)")
        _require(0 <= self.distill_weight <= 1, "distill_weight", self.distill_weight, "in [0, 1]")
        _require(
            0 < self.s_min < self.s_max <= 1,
            "s_min, s_max",
            (self.s_min, self.s_max),
            "0 < s_min < s_max <= 1",
        )
        _require(self.vocab_size >= 100, "vocab_size", self.vocab_size, "at least 100")
        _require_choices(self)


def to_dict(config: ModelConfig | TrainConfig) -> dict[str, Any]:
    """Return the fields of a configuration as JSON-ready data."""
    return asdict(config)


def from_dict(cls: type[Config], values: dict[str, Any]) -> Config:
    """Build a configuration from JSON data.

    Raises:
        ValueError: for an unknown or missing field, or a value out of range.
    """
    known = {f.name for f in fields(cls)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"{cls.__name__} has no field {unknown[0]!r}; known: {sorted(known)}")
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from error


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write a JSON object under a temporary name, then move it into place."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(
        json.dumps(json_ready(values), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    os.replace(temporary, path)


def json_ready(value: Any) -> Any:
    """Return JSON data with None for the numbers that JSON lacks: NaN and the infinities."""
    if isinstance(value, dict):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file.

    Raises:
        ValueError: if the file is missing or does not hold a JSON object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a JSON object, not {type(values).__name__}")
    return values


def field_docs(cls: type[Config]) -> dict[str, str]:
    """Return each field's docstring, for help texts."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            docs[statement.target.id] = " ".join(str(following.value.value).split())
    return docs


def choices(cls: type[Config], name: str) -> tuple[str, ...]:
    """Return the allowed values of a field with named choices, else an empty tuple."""
    hint = get_type_hints(cls)[name]
    args: tuple[str, ...] = get_args(hint) if getattr(hint, "__origin__", None) is Literal else ()
    return args


def _require(ok: bool, name: str, value: object, wanted: str) -> None:
    if not ok:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def _require_types(config: ModelConfig | TrainConfig) -> None:
    """Refuse values of another type, which a file or an option may hold."""
    for name, hint in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if hint is bool:
            _require(isinstance(value, bool), name, value, "true or false")
        elif hint is int:
            whole = isinstance(value, int) and not isinstance(value, bool)
            _require(whole, name, value, "a whole number")
        elif hint is float:
            real = isinstance(value, int | float) and not isinstance(value, bool)
            _require(real and math.isfinite(value), name, value, "a finite number")
        elif get_origin(hint) is tuple:
            _require(isinstance(value, tuple), name, value, "a list")


def _require_choices(config: ModelConfig | TrainConfig) -> None:
    for f in fields(config):
        allowed = choices(type(config), f.name)
        if allowed and getattr(config, f.name) not in allowed:
            raise ValueError(
                f"{f.name} must be one of {', '.join(allowed)}, got {getattr(config, f.name)!r}"
            )
