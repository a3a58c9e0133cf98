"""One training on several processes, or on a device: each computes its rows of every batch.

    accelerate launch --multi_gpu --num_processes 2 -m budgetformer train …    (on CPUs too)

All processes hold the same weights and read the same rows in the same order. What the model says
about a row goes to all of them, so each has the loss L of the whole batch, whatever terms compare
its examples. The gradient flows back through a process's own rows only; summed over processes it is

    dL/dθ = Σ_rows ∂L/∂(what the model says of a row) · ∂(what it says)/∂θ

which is what one process computes, up to the order of additions. Noise and rounding are drawn for
the whole batch everywhere, on the CPU, so they are those of one process too; dropout is not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from math import prod

import torch
from torch import Tensor

from budgetformer.budget import Routing, Selection
from budgetformer.evaluate import Records, evaluate_ids
from budgetformer.model import BudgetFormer, LayerOutput, ModelOutput
from budgetformer.policies import Policy
from budgetformer.tokenizer import Batch, TokenIds, Tokenizer

# The first process may be paused, and it alone writes the checkpoint; the others wait so long.
TIMEOUT = timedelta(hours=2)


class Processes:
    """The processes of a training, seen from one of them: here the only one, on the CPU."""

    rank, size = 0, 1
    device = torch.device("cpu")

    @property
    def main(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    def forward(
        self, model: BudgetFormer, batch: Batch, policy: Policy | None = None
    ) -> ModelOutput:
        """Run a model on a batch; the output is the whole batch's in every process."""
        output: ModelOutput = model(*batch, policy=policy)
        return output

    def add_gradients(self, model: BudgetFormer) -> None:
        """Sum the gradients over processes."""

    def evaluate(
        self,
        model: BudgetFormer,
        tokenizer: Tokenizer,
        inputs: Sequence[TokenIds],
        labels: Sequence[int],
    ) -> Records:
        """Run a model over encoded inputs; the records are those of all inputs."""
        return evaluate_ids(model, tokenizer, inputs, labels)

    @contextmanager
    def on_cpu(self, model: BudgetFormer) -> Iterator[None]:
        """Hold a model on the CPU, where evaluation and prediction run."""
        yield

    def first(self, action: Callable[[], None]) -> None:
        """Let the first process act while the others wait.

        Raises:
            ValueError: in all processes, if the first one's action raises it.
        """
        action()

    def first_says(self, flag: bool) -> bool:
        """Return the first process's flag in all of them."""
        return flag


class SeveralProcesses(Processes):
    """Processes that a launcher started, connected through accelerate."""

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        """Take this process's place among `size` of them."""
        self.rank, self.size, self.device = rank, size, device

    def share(self, n: int, rank: int | None = None) -> range:
        """Return a process's rows of n: as many as another's or one more, perhaps none."""
        rank = self.rank if rank is None else rank
        return range(rank * n // self.size, (rank + 1) * n // self.size)

    def forward(
        self, model: BudgetFormer, batch: Batch, policy: Policy | None = None
    ) -> ModelOutput:
        """Run a model on this process's rows; the others' rows come without a gradient."""
        n = len(batch.ids)
        mine = self._computed(n)
        parts = (part[mine.start : mine.stop].to(self.device) for part in batch)
        output: ModelOutput = model(*parts, policy=policy and self._for_rows(policy, mine, n))
        if self.size == 1:
            return output
        flat = [output.logits]
        for layer in output.layers:
            gate = layer.selection.gate
            flat += [layer.routing.budget, layer.routing.scores, layer.selection.heads]
            flat += [] if gate is None else [gate]
        logits, *rest = self.whole(flat, n)
        each = len(rest) // len(output.layers)
        return ModelOutput(
            logits,
            [
                LayerOutput(
                    Routing(rest[i], rest[i + 1], layer.routing.temperature),
                    Selection(*rest[i + 2 : i + each]),
                )
                for layer, i in zip(output.layers, range(0, len(rest), each), strict=True)
            ],
        )

    def add_gradients(self, model: BudgetFormer) -> None:
        """Sum the gradients over processes, all in one message."""
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        total = self.total(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = torch.split(total, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def evaluate(
        self,
        model: BudgetFormer,
        tokenizer: Tokenizer,
        inputs: Sequence[TokenIds],
        labels: Sequence[int],
    ) -> Records:
        """Run a model over this process's inputs and collect the others' records."""
        n, rows = len(inputs), self._computed(len(inputs))
        with self.on_cpu(model):
            mine = evaluate_ids(
                model, tokenizer, inputs[rows.start : rows.stop], labels[rows.start : rows.stop]
            )
        columns = [torch.from_numpy(getattr(mine, field.name)) for field in fields(Records)]
        return Records(*(column.numpy() for column in self.whole(columns, n)))

    @contextmanager
    def on_cpu(self, model: BudgetFormer) -> Iterator[None]:
        """Hold a model on the CPU, then put it back on the device."""
        model.to("cpu")
        yield
        model.to(self.device)

    def first(self, action: Callable[[], None]) -> None:
        """Let the first process act; when it fails, so do all."""
        fault: Exception | None = None
        if self.main:
            try:
                action()
            except (ValueError, OSError) as error:
                fault = error
        if self.first_says(fault is not None):
            raise fault or ValueError("the first process says what is wrong")

    def first_says(self, flag: bool) -> bool:
        """Return the first process's flag in all of them."""
        return bool(self.gather(torch.tensor([[float(flag)]], device=self.device))[0])

    def whole(self, parts: Sequence[Tensor], n: int) -> list[Tensor]:
        """Put the rows that each process has of several tensors together, in one message.

        Args:
            parts: this process's rows, (at least its share, …); numbers that fp32 holds exactly.
            n: rows of the whole.

        Returns:
            The whole tensors; only this process's rows have a gradient.
        """
        mine, most = self.share(n), -(-n // self.size)
        own = [part[: len(mine)] for part in parts]
        widths = [prod(part.shape[1:]) for part in parts]
        # Not reshape(rows, -1): a process without rows could not say how wide they are.
        flat = [p.detach().reshape(len(mine), w) for p, w in zip(own, widths, strict=True)]
        message = torch.zeros(most, sum(widths), device=self.device)
        message[: len(mine)] = torch.cat(flat, dim=1)
        said = self.gather(message).view(self.size, most, -1)
        everyone = torch.cat([said[rank, : len(self.share(n, rank))] for rank in range(self.size)])
        wholes = []
        for part, columns in zip(own, torch.split(everyone, widths, dim=1), strict=True):
            others = columns.reshape(n, *part.shape[1:]).to(part)
            wholes.append(torch.cat([others[: mine.start], part, others[mine.stop :]]))
        return wholes

    def gather(self, message: Tensor) -> Tensor:
        """Return the rows of all processes' messages, which have one shape, one after the other."""
        from accelerate.utils import gather

        messages: Tensor = gather(message)
        return messages

    def total(self, message: Tensor) -> Tensor:
        """Return the sum of all processes' messages."""
        from accelerate.utils import reduce

        messages: Tensor = reduce(message, "sum")
        return messages

    def _computed(self, n: int) -> range:
        """Return the rows to run: the share, or one row that counts for nothing."""
        mine = self.share(n)
        return range(mine.start, max(mine.stop, mine.start + 1))

    def _for_rows(self, policy: Policy, mine: range, n: int) -> Policy:
        """Make a policy of the whole batch choose for some of its rows.

        It sees all rows, those of others as zeros, so what it draws for each is what one process
        draws; and it sees them on the CPU, where generators are the same everywhere.
        """

        def choose(layer: int, routing: Routing) -> Selection:
            seen = Routing(
                _among_zeros(routing.budget.cpu(), mine, n),
                _among_zeros(routing.scores.cpu(), mine, n),
                routing.temperature,
            )
            heads, gate, offset = (
                None if part is None else part[mine.start : mine.stop].to(self.device)
                for part in policy(layer, seen)
            )
            assert heads is not None
            return Selection(heads, gate, offset)

        return choose


def launched() -> Processes:
    """Join the processes that `accelerate launch` started; without it there is only this one.

    Raises:
        ValueError: if accelerate is not installed, or was told to start several processes in a way
            that starts one.
    """
    environment = os.environ
    if "LOCAL_RANK" not in environment and "ACCELERATE_MIXED_PRECISION" not in environment:
        return Processes()
    try:
        from accelerate import PartialState
        from accelerate.utils import str_to_bool
    except ImportError as error:
        raise ValueError(
            "training on several processes needs accelerate: pip install 'budgetformer[parallel]'"
        ) from error
    cpu = bool(str_to_bool(environment.get("ACCELERATE_USE_CPU", "false")))
    if cpu and "MASTER_ADDR" in environment and "RANK" not in environment:
        raise ValueError(
            "accelerate launch --cpu starts a single process, whatever --num_processes says; "
            "say --multi_gpu in its place, which starts several on CPUs too"
        )
    state = PartialState(cpu=cpu or not torch.accelerator.is_available(), timeout=TIMEOUT)
    if state.num_processes == 1 and state.device.type == "cpu":
        return Processes()
    return SeveralProcesses(state.process_index, state.num_processes, state.device)


def _among_zeros(rows: Tensor, mine: range, n: int) -> Tensor:
    """Put rows at their place among n."""
    before, after = rows.new_zeros(mine.start, *rows.shape[1:]), n - mine.stop
    return torch.cat([before, rows, rows.new_zeros(after, *rows.shape[1:])])
