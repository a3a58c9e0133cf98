"""Training: one loop for every objective, resumable at any step, reported as events.

Each step draws its dropout and noise from a seed of its own, (seed, step), and each epoch its
order from (seed, epoch). So a run that was interrupted and resumed repeats an undisturbed one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from budgetformer.card import write_card
from budgetformer.checkpoint import METRICS, Checkpoint
from budgetformer.config import TrainConfig, write_json
from budgetformer.control import Control
from budgetformer.data import Dataset
from budgetformer.evaluate import evaluate, summarise
from budgetformer.losses import Schedule, schedule, training_loss
from budgetformer.optimisation import adamw, lr_factor, seed_of, seed_torch
from budgetformer.parallel import Processes
from budgetformer.policies import Policy, exploring
from budgetformer.tokenizer import Batch, TokenIds
from budgetformer.training_report import answer, routing_report
from budgetformer.training_start import build, load_teacher
from budgetformer.training_state import RUN, STATE, EventLog, claim, load_state, save_state

Event = dict[str, Any]
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


def train(
    dataset: Dataset,
    run: Run,
    out: Path,
    resume: bool = False,
    control: Control | None = None,
    processes: Processes | None = None,
) -> Iterator[Event]:
    """Train a model, write the checkpoint to a folder and yield events on the way.

    Events are also appended to events.jsonl: "start", "step" every 20 steps, "epoch" with the
    validation figures, "end". Stopping the iteration stops the training; resume=True goes on from
    the last saved state, or starts when there is none. A control may pause and stop it, too. Where
    several processes train together, each calls this and the first writes.

    Raises:
        ValueError: if the folder already holds a training and resume is False, if it holds another
            training, if another process trains there, or if the data or a checkpoint do not fit.
    """
    with torch.random.fork_rng():
        trainer = Trainer(dataset, run, out, resume, control, processes)
        events = trainer.events()
    with EventLog(out) if trainer.processes.main else nullcontext() as log:
        while True:
            # Forked for each event: between two of them the caller draws from its own generator.
            with torch.random.fork_rng():
                event = next(events, None)
            if event is None:
                return
            if log:
                log.append(event)
            yield event


class Trainer:
    """The state of one training."""

    def __init__(
        self,
        dataset: Dataset,
        run: Run,
        out: Path,
        resume: bool,
        control: Control | None = None,
        processes: Processes | None = None,
    ) -> None:
        """Prepare the data, the model and the optimiser, and restore a saved state."""
        self.run, self.config, self.out = run, run.train, out
        self.processes = processes or Processes()
        # One process looks; the others hear of it from that one.
        self.control = control if self.processes.main else None
        if self.config.objective == "requested" and not run.model.get("fixed_heads"):
            raise ValueError("the requested objective needs fixed_heads: what runs unasked")
        if self.config.selection == "shuffled" and self.processes.size > 1:
            raise ValueError("the shuffled selection mixes a batch: train it in a single process")
        self.processes.first(lambda: claim(out, asdict(run), resume))
        self.rows = dataset.split("train").first(self.config.limit)
        self.validation = dataset.split("validation")
        self.tokenizer, self.model = build(run, dataset, self.rows)
        self.teacher = (
            load_teacher(run.teacher, self.tokenizer, self.model.config) if run.teacher else None
        )
        if self.processes.main:
            out.mkdir(parents=True, exist_ok=True)
            write_json(out / RUN, asdict(run))
        for model in filter(None, (self.model, self.teacher)):
            model.to(self.processes.device)
        self.optimizer = adamw(self.model, self.config)
        self.inputs = self._encode(self.rows.texts, self.rows.text_pairs)
        self.validation_inputs = self._encode(self.validation.texts, self.validation.text_pairs)
        self.steps_per_epoch = -(-len(self.inputs) // self.config.batch_size)
        self.n_steps = self.steps_per_epoch * self.config.epochs
        self.step = 0
        self.terms: dict[str, Any] = {}
        if resume and (out / STATE).is_file():
            self.step = load_state(out, self.model, self.optimizer)

    def events(self) -> Iterator[Event]:
        """Run the remaining steps."""
        self.started = time.perf_counter()
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
                stop = self.control and (
                    yield from self.control.obey(self.step, self._hold, self._answer)
                )
                if self.processes.first_says(bool(stop)):
                    return
                self.terms = self._train_step(rows)
                self.step += 1
                if self.step % REPORT_EVERY == 0:
                    yield self._report()
                # An epoch ends with its validation: saved before, that would be left out.
                if self.step % self.config.save_every == 0 and self.step % self.steps_per_epoch:
                    self._save()
            seconds = time.perf_counter() - self.started
            yield {
                "event": "epoch",
                "epoch": self.step // self.steps_per_epoch,
                "step": self.step,
                "seconds": round(seconds, 1),
                **self._validate(),
                **self._answer(),
            }
            self._save()
        yield {"event": "end", "step": self.step, **self._finish()}

    def _report(self) -> Event:
        seconds = round(time.perf_counter() - self.started, 2)
        return {
            "event": "step",
            "step": self.step,
            "seconds": seconds,
            **self.terms,
            **self._answer(),
        }

    def _answer(self) -> Event:
        """Answer the text of who watches."""
        texts = self.control.look().texts if self.control else ()
        with self.processes.on_cpu(self.model):
            return answer(self.model, self.tokenizer, texts)

    def _hold(self) -> Event | None:
        """Save the state; return a report of the last step unless it has been reported."""
        self._save()
        return self._report() if self.terms and self.step % REPORT_EVERY else None

    def _save(self) -> None:
        if self.processes.main:
            save_state(self.out, self.model, self.optimizer, self.step)

    def _encode(self, texts: Sequence[str], pairs: Sequence[str] | None) -> list[TokenIds]:
        return self.tokenizer.encode_ids(texts, pairs, self.model.config.max_len)

    def _epoch_batches(self, epoch: int) -> list[list[int]]:
        """Shuffle, sort by length within pools of batches, shuffle the batches."""
        generator = torch.Generator().manual_seed(seed_of(self.config.seed, "order", epoch))
        order = torch.randperm(len(self.inputs), generator=generator).tolist()
        size = self.config.batch_size
        pool = POOL_BATCHES * size
        batches = []
        for start in range(0, len(order), pool):
            rows = sorted(order[start : start + pool], key=lambda row: len(self.inputs[row].ids))
            batches += [rows[i : i + size] for i in range(0, len(rows), size)]
        shuffled = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[i] for i in shuffled]

    def _train_step(self, rows: list[int]) -> dict[str, Any]:
        self.model.train()
        moment = self.step * self.processes.size + self.processes.rank
        seed_torch(seed_of(self.config.seed, "dropout", moment))
        generator = torch.Generator().manual_seed(seed_of(self.config.seed, "noise", self.step))
        progress = self.step / self.n_steps
        now = schedule(self.config, self.model.config.temperature, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak_lr"] * lr_factor(progress, self.config.warmup)
        batch = self.tokenizer.batch([self.inputs[row] for row in rows])
        labels = torch.tensor([self.rows.labels[row] for row in rows], device=self.processes.device)
        bf16 = self.config.precision == "bf16"
        with torch.autocast(self.processes.device.type, torch.bfloat16, enabled=bf16):
            teacher = self._teacher_logits(batch)
            batch = batch._replace(ids=self._drop_tokens(batch.ids, generator))
            output, less = (
                self.processes.forward(self.model, batch, policy) if policy else None
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
        self.processes.add_gradients(self.model)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        budgets = torch.stack([layer.routing.budget.detach() for layer in output.layers]).cpu()
        executed = torch.stack([layer.selection.heads for layer in output.layers]).cpu().float()
        routing = routing_report(budgets.T, executed.transpose(0, 1))
        return {
            "loss": float(loss.detach()),
            **terms,
            "mean_budget": float(budgets.mean()),
            "executed_heads_frac": float(executed.mean()),
            "accuracy": float((output.logits.argmax(dim=-1) == labels).float().mean()),
            "lr": self.optimizer.param_groups[0]["lr"],
            **asdict(now),
            **(routing if self.model.config.routed else {}),
        }

    def _teacher_logits(self, batch: Batch) -> Tensor | None:
        """Ask the teacher, who sees every token."""
        if self.teacher is None:
            return None
        with torch.inference_mode():
            logits = self.processes.forward(self.teacher, batch).logits.float()
        return logits.clone()  # outside, where a gradient may flow past it

    def _policies(
        self, now: Schedule, generator: torch.Generator, n: int
    ) -> tuple[Policy, Policy | None]:
        """Return a step's policy, and for the utility objective one of fewer heads."""
        config, n_heads = self.config, self.model.config.n_heads
        if config.objective == "dense":
            return self.model.own_policy, None
        if config.objective == "requested":
            asked = torch.randint(1, n_heads + 1, (n,), generator=generator)
            return exploring(now.tau, now.noise, generator, lambda k: asked), None
        if config.objective != "utility":
            return exploring(now.tau, now.noise, generator, choice=config.selection), None
        if now.utility_weight == 0:
            # Heads and scores first learn to be of use at every k; then gains mean something.
            pair = torch.randint(1, n_heads + 1, (2, n), generator=generator)
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
        records = self.processes.evaluate(
            self.model, self.tokenizer, self.validation_inputs, self.validation.labels
        )
        routing = routing_report(records.budgets, records.heads)
        return {**summarise(records), **(routing if self.model.config.routed else {})}

    def _finish(self) -> dict[str, Any]:
        """Write the checkpoint; its figures are those of the weights as saved."""
        if not self.processes.main:
            return {}
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
