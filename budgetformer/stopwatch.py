"""One input on the clock: the chosen heads against all of them, measured where this runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.policies import Policy, all_heads
from budgetformer.trace import Trace, held_heads

ROUNDS = 15
WARM_UP = 3


@dataclass(frozen=True)
class Stopwatch:
    """Medians of forward passes that took turns, so that a busy moment meets both."""

    chosen_ms: float
    """With the heads of the trace, router included."""
    full_ms: float
    """With all heads, router included."""
    rounds: int
    """Runs of each."""
    threads: int
    """Threads that torch used."""

    @property
    def speed_up(self) -> float:
        """How many times as long all heads take."""
        return self.full_ms / self.chosen_ms


@torch.inference_mode()
def stopwatch(checkpoint: Checkpoint, trace: Trace, rounds: int = ROUNDS) -> Stopwatch:
    """Time one input with its heads and with all heads, in turns.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to run again, with whatever heads it ran.
        rounds: runs of each that count; a few before them do not.
    """
    batch = checkpoint.tokenizer.batch([trace.encoding])

    def run(policy: Policy) -> float:
        start = time.perf_counter()
        checkpoint.model(*batch, policy=policy)
        return 1000 * (time.perf_counter() - start)

    chosen, full = held_heads(trace), all_heads()
    pairs = [(run(chosen), run(full)) for _ in range(WARM_UP + rounds)][WARM_UP:]
    return Stopwatch(
        median(pair[0] for pair in pairs),
        median(pair[1] for pair in pairs),
        rounds,
        torch.get_num_threads(),
    )
