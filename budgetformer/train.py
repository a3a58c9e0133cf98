"""Training: one loop for every objective, resumable at any step, reported as events.

Each step draws its dropout and noise from a seed of its own, (seed, step), and each epoch its
order from (seed, epoch). So a run that was interrupted and resumed repeats an undisturbed one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from budgetformer.card import write_card
from budgetformer.checkpoint import CONFIG, METRICS, Checkpoint, is_matrix, save_tensors
from budgetformer.config import ModelConfig, TrainConfig, json_ready, read_json, to_dict, write_json
from budgetformer.data import Dataset
from budgetformer.evaluate import evaluate, evaluate_ids, summarise
from budgetformer.losses import Schedule, schedule, training_loss
from budgetformer.model import BudgetFormer
from budgetformer.policies import Policy, all_heads, exploring
from budgetformer.pretrained import PretrainedEncoder
from budgetformer.tokenizer import TokenIds, Tokenizer

Event = dict[str, Any]
EVENTS, STATE, RUN = "events.jsonl", "state.safetensors", "run.json"
REPORT_EVERY = 20
POOL_BATCHES = 50
# The utility objective compares k + 1 with k - 1 heads, or k + 2 with k - 2.
MAX_UTILITY_STEP = 2


@dataclass(frozen=True)
class Run:
    """Everything that decides the outcome of a training, as run.json keeps it."""

    data: str
    train: TrainConfig
    model: dict[str, Any]
    """Fields of ModelConfig; vocabulary size and labels come from the data."""
    init: str = ""
    """Pretrained BERT-family encoder to start from: "minilm", a folder or a Hub id."""
    warm_start: str = ""
    """Checkpoint folder whose weights and vocabulary the training starts from."""
    teacher: str = ""
    """Checkpoint folder of the same vocabulary to distil from."""


def train(dataset: Dataset, run: Run, out: Path, resume: bool = False) -> Iterator[Event]:
    """Train a model, write the checkpoint to a folder and yield events on the way.

    Events are also appended to events.jsonl: "start", "step" every 20 steps, "epoch" with the
    validation figures, "end". Stopping the iteration stops the training; resume=True goes on from
    the last saved state, or starts when there is none.

    Raises:
        ValueError: if the folder already holds a training and resume is False, if it holds another
            training, or if the data or a checkpoint do not fit.
    """
    with torch.random.fork_rng():
        events = Trainer(dataset, run, out, resume).events()
    while True:
        # Forked for each event: between two of them the caller draws from its own generator.
        with torch.random.fork_rng():
            event = next(events, None)
        if event is None:
            return
        with (out / EVENTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(json_ready(event)) + "\n")
        yield event


class Trainer:
    """The state of one training."""

    def __init__(self, dataset: Dataset, run: Run, out: Path, resume: bool) -> None:
        """Prepare the data, the model and the optimiser, and restore a saved state."""
        self.run, self.config, self.out = run, run.train, out
        _claim(out, run, resume)
        self.rows = dataset.split("train").first(self.config.limit)
        self.validation = dataset.split("validation")
        self.tokenizer, self.model = self._build(dataset)
        self.teacher = self._teacher() if run.teacher else None
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / RUN, asdict(run))
        self.optimizer = _optimizer(self.model, self.config)
        self.inputs = self._encode(self.rows.texts, self.rows.text_pairs)
        self.validation_inputs = self._encode(self.validation.texts, self.validation.text_pairs)
        self.steps_per_epoch = -(-len(self.inputs) // self.config.batch_size)
        self.n_steps = self.steps_per_epoch * self.config.epochs
        self.step = 0
        if resume and (out / STATE).is_file():
            self.step = _load_state(self.model, self.optimizer, out / STATE)

    def events(self) -> Iterator[Event]:
        """Run the remaining steps."""
        started = time.perf_counter()
        yield {
            "event": "start",
            "step": self.step,
            "steps": self.n_steps,
            "steps_per_epoch": self.steps_per_epoch,
            "train_rows": len(self.rows),
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }
        while self.step < self.n_steps:
            for rows in self._epoch_batches(self.step // self.steps_per_epoch)[
                self.step % self.steps_per_epoch :
            ]:
                terms = self._train_step(rows)
                self.step += 1
                if self.step % REPORT_EVERY == 0:
                    yield {"event": "step", "step": self.step, **terms}
                if self.step % self.config.save_every == 0:
                    self._save_state()
            seconds = time.perf_counter() - started
            yield {
                "event": "epoch",
                "epoch": self.step // self.steps_per_epoch,
                "step": self.step,
                "seconds": round(seconds, 1),
                **self._validate(),
            }
            self._save_state()
        yield {"event": "end", "step": self.step, **self._finish()}

    def _build(self, dataset: Dataset) -> tuple[Tokenizer, BudgetFormer]:
        """Make tokenizer and model: new, from a pretrained encoder, or from a checkpoint."""
        texts = (*self.rows.texts, *(self.rows.text_pairs or ()))
        given: dict[str, Any] = {
            "labels": dataset.label_names,
            "n_segments": dataset.n_segments,
            "routed": self.config.objective != "dense",
        }
        state: dict[str, Tensor] = {}
        if self.run.warm_start:
            start = Checkpoint.from_pretrained(self.run.warm_start)
            tokenizer, state = start.tokenizer, start.model.state_dict()
            given = {**to_dict(start.config), **self.run.model, **given}
        elif self.run.init:
            encoder = PretrainedEncoder(self.run.init)
            tokenizer = encoder.tokenizer_for(texts)
            given = {**encoder.model_fields(), **self.run.model, **given}
        else:
            tokenizer = Tokenizer.train(texts, self.config.vocab_size)
            given = {**self.run.model, **given}
        _seed_torch(_seed(self.config.seed, "weights", 0))
        model = BudgetFormer(ModelConfig(**{**given, "vocab_size": tokenizer.vocab_size}))
        if self.run.init:
            state = encoder.state(model.config, tokenizer)
        _start_from(model, state, self.run.warm_start or self.run.init)
        return tokenizer, model

    def _teacher(self) -> BudgetFormer:
        """Read the model to distil from; it must read and answer as the student does."""
        teacher, mine = Checkpoint.from_pretrained(self.run.teacher), self.model.config
        for what, same in (
            ("vocabulary", teacher.tokenizer.pieces == self.tokenizer.pieces),
            ("labels", teacher.config.labels == mine.labels),
            ("number of texts", teacher.config.n_segments == mine.n_segments),
            ("length", teacher.config.max_len >= mine.max_len),
        ):
            if not same:
                raise ValueError(f"the teacher {self.run.teacher} differs in its {what}")
        return teacher.model

    def _encode(self, texts: Sequence[str], pairs: Sequence[str] | None) -> list[TokenIds]:
        return self.tokenizer.encode_ids(texts, pairs, self.model.config.max_len)

    def _epoch_batches(self, epoch: int) -> list[list[int]]:
        """Shuffle, sort by length within pools of batches, shuffle the batches."""
        generator = torch.Generator().manual_seed(_seed(self.config.seed, "order", epoch))
        order = torch.randperm(len(self.inputs), generator=generator).tolist()
        size = self.config.batch_size
        pool = POOL_BATCHES * size
        batches = []
        for start in range(0, len(order), pool):
            rows = sorted(order[start : start + pool], key=lambda row: len(self.inputs[row].ids))
            batches += [rows[i : i + size] for i in range(0, len(rows), size)]
        shuffled = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[i] for i in shuffled]

    def _train_step(self, rows: list[int]) -> dict[str, float]:
        self.model.train()
        _seed_torch(_seed(self.config.seed, "dropout", self.step))
        generator = torch.Generator().manual_seed(_seed(self.config.seed, "noise", self.step))
        progress = self.step / self.n_steps
        now = schedule(self.config, self.model.config.temperature, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr * _lr_factor(progress, self.config.warmup)
        batch = self.tokenizer.batch([self.inputs[row] for row in rows])
        labels = torch.tensor([self.rows.labels[row] for row in rows])
        teacher = None
        if self.teacher is not None:
            with torch.inference_mode():
                teacher = self.teacher(*batch).logits
            teacher = teacher.clone()
        ids = self._drop_tokens(batch.ids, generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.precision == "bf16"):
            output, less = (
                self.model(ids, batch.mask, batch.segments, policy) if policy else None
                for policy in self._policies(now, generator, len(rows))
            )
        assert output is not None
        loss, terms = training_loss(output, labels, self.config, now, teacher, less)
        if not torch.isfinite(loss):
            raise ValueError(
                f"training diverged: the loss is {float(loss.detach())} at step {self.step}; "
                f"try a smaller --lr than {self.config.lr}"
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        budgets = torch.stack([layer.routing.budget.detach() for layer in output.layers])
        executed = torch.stack([layer.selection.heads for layer in output.layers]).float()
        return {
            "loss": float(loss.detach()),
            **terms,
            "mean_budget": float(budgets.mean()),
            "executed_heads_frac": float(executed.mean()),
            "accuracy": float((output.logits.argmax(dim=-1) == labels).float().mean()),
            "lr": self.optimizer.param_groups[0]["lr"],
            **asdict(now),
        }

    def _policies(
        self, now: Schedule, generator: torch.Generator, n: int
    ) -> tuple[Policy, Policy | None]:
        """Return a step's policy, and for the utility objective one of fewer heads."""
        if self.config.objective == "dense":
            return all_heads(), None
        if self.config.objective != "utility":
            return exploring(now.tau, now.noise, generator), None
        if now.utility_weight == 0:
            # Heads and scores first learn to be of use at every k; then gains mean something.
            pair = torch.randint(1, self.model.config.n_heads + 1, (2, n), generator=generator)
            fewer, more = pair.sort(dim=0).values
            numbers = (lambda k: more, lambda k: fewer)
        else:
            step = torch.randint(1, MAX_UTILITY_STEP + 1, (n,), generator=generator)
            numbers = (lambda k: k + step, lambda k: k - step)
        # Both passes draw the same noise, so the larger set of heads holds the smaller.
        twin = torch.Generator()
        twin.set_state(generator.get_state())
        return (
            exploring(now.tau, now.noise, generator, numbers[0]),
            exploring(now.tau, now.noise, twin, numbers[1]),
        )

    def _drop_tokens(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Replace ordinary tokens by [MASK] at random."""
        chance = torch.rand(ids.shape, generator=generator)
        ordinary = (
            (ids != self.tokenizer.pad_id)
            & (ids != self.tokenizer.cls_id)
            & (ids != self.tokenizer.sep_id)
        )
        dropped = ordinary & (chance < self.config.token_dropout)
        return torch.where(dropped, self.tokenizer.mask_id, ids)

    def _validate(self) -> dict[str, Any]:
        self.model.eval()
        return summarise(
            evaluate_ids(self.model, self.tokenizer, self.validation_inputs, self.validation.labels)
        )

    def _save_state(self) -> None:
        tensors = {f"model.{name}": p for name, p in self.model.state_dict().items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            for name, value in state.items():
                tensors[f"optimizer.{index}.{name}"] = value
        save_tensors(tensors, self.out / STATE, {"step": str(self.step)})

    def _finish(self) -> dict[str, Any]:
        """Write the checkpoint; its figures are those of the weights as saved."""
        Checkpoint(self.model, self.tokenizer).save_pretrained(self.out, self.config.weights)
        saved = Checkpoint.from_pretrained(self.out)
        validation = summarise(evaluate(saved, self.validation))
        metrics = {
            "training": {**asdict(self.run), "rows": len(self.rows)},
            "validation": validation,
        }
        write_json(self.out / METRICS, metrics)
        write_card(self.out, saved.config, metrics)
        (self.out / STATE).unlink(missing_ok=True)
        return validation


def _start_from(model: BudgetFormer, state: dict[str, Tensor], source: str) -> None:
    """Copy the weights that a start has; a dense one has no router, an encoder no classifier."""
    try:
        unexpected = model.load_state_dict(state, strict=False).unexpected_keys
    except RuntimeError as error:
        raise ValueError(f"{source} has another shape: {' '.join(str(error).split())}") from error
    if any(".router." not in name for name in unexpected):
        raise ValueError(f"{source} holds weights the model has not: {unexpected[0]}")


def _claim(out: Path, run: Run, resume: bool) -> None:
    """Check that a folder is free, or holds this very training, unfinished."""
    record, wanted = out / RUN, json.loads(json.dumps(asdict(run)))
    written = (out / CONFIG).is_file()
    if not record.is_file():
        if written:
            raise ValueError(f"{out} already holds a checkpoint; choose another folder")
        return
    if not resume:
        raise ValueError(f"{out} already holds a training; resume it or choose another folder")
    if read_json(record) != wanted:
        raise ValueError(f"{out} holds a training with other settings; see {record}")
    if written and not (out / STATE).is_file():
        raise ValueError(f"the training in {out} is finished; there is nothing to resume")


def _optimizer(model: BudgetFormer, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only: not on biases and normalisation weights."""
    decayed = [p for name, p in model.named_parameters() if is_matrix(name, p)]
    others = [p for name, p in model.named_parameters() if not is_matrix(name, p)]
    return torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=config.lr,
        betas=(0.9, 0.98),
        fused=True,
    )


def _lr_factor(progress: float, warmup: float) -> float:
    """Rise linearly over the warm-up, then fall linearly to zero."""
    if progress < warmup:
        return progress / warmup
    return (1 - progress) / (1 - warmup)


def _seed_torch(seed: int) -> None:
    """Seed torch's global generator, the only one that initial weights and dropout can use.

    `train` forks that generator, so that its caller's stays as it was.
    """
    torch.manual_seed(seed)  # noqa: TID251


def _seed(seed: int, purpose: str, index: int) -> int:
    """Return a seed for one purpose at one moment; different moments never share a stream."""
    purposes = ("weights", "order", "dropout", "noise")
    return (seed * len(purposes) + purposes.index(purpose)) * 10_000_019 + index


def _load_state(model: BudgetFormer, optimizer: torch.optim.Optimizer, path: Path) -> int:
    """Restore model and optimiser; return the step."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        step = int(file.metadata()["step"])
    model.load_state_dict(
        {name[len("model.") :]: t for name, t in tensors.items() if name.startswith("model.")}
    )
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, field = name.split(".")
            state.setdefault(int(index), {})[field] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return step
