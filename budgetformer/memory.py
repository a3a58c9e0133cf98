"""Peak memory of one forward pass, measured in a fresh process.

A process that has run other models keeps what it freed, so its peak says little. `peak_memory`
starts a new one, which loads the model, resets the peak where the system can (Linux), and runs one
pass. Elsewhere the difference of ru_maxrss stands in: a lower bound.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from budgetformer.config import ModelConfig, from_dict, to_dict

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Memory:
    """Bytes that a process held, measured."""

    before_bytes: int
    """Resident before the pass: Python, torch and the weights."""
    forward_bytes: int
    """What the pass added at its peak."""


def peak_memory(
    config: ModelConfig, batch: int, length: int, executed_heads: Sequence[int]
) -> Memory:
    """Measure a model of this shape, with random weights, on one batch.

    Args:
        config: the model's shape.
        batch: B, the examples of the batch.
        length: T, their tokens.
        executed_heads: k of each layer.
    """
    task = json.dumps([to_dict(config), batch, length, list(executed_heads)])
    # The folder that holds this package, so that the new process finds the same one.
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "budgetformer.memory", task],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return Memory(**json.loads(done.stdout))


def _measure(config: ModelConfig, batch: int, length: int, executed_heads: Sequence[int]) -> Memory:
    import torch

    from budgetformer.model import BudgetFormer
    from budgetformer.policies import given_k

    torch.set_num_threads(1)
    model = BudgetFormer(config).eval().requires_grad_(False)
    ids = torch.zeros(batch, length, dtype=torch.long)
    mask = torch.ones(batch, length, dtype=torch.bool)
    policy = given_k(torch.tensor([list(executed_heads)]))
    with torch.inference_mode():
        # A short pass first: it loads what the libraries load only once.
        model(ids[:1, :1], mask[:1, :1], policy=policy)
        before = _start()
        model(ids, mask, policy=policy)
    return Memory(before, max(0, _peak() - before))


def _start() -> int:
    """Reset the peak if the system can, and return what is resident, in bytes."""
    if not CLEAR.exists():
        return _peak()
    CLEAR.write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    if STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int:
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


if __name__ == "__main__":
    shape, *rest = json.loads(sys.argv[1])
    print(json.dumps(asdict(_measure(from_dict(ModelConfig, shape), *rest))))
