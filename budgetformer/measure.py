"""One model on one machine: time, memory, energy and CO₂, for measured.json and for a screen.

The model runs as it would for a visitor: one text at a time, on one thread, with its own heads.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.efficiency import Machine, Measured
from budgetformer.energy import measure_energy
from budgetformer.evaluate import Records, evaluate_ids
from budgetformer.memory import peak_memory
from budgetformer.progress import Progress
from budgetformer.timing import latency, one_thread

N_TEXTS = 200
REPEATS = 300
ENERGY_SECONDS = 10.0
PER_TEXTS = 1000
STEPS = 4


def measure(
    checkpoint: Checkpoint,
    examples: Examples,
    texts: str,
    country: str,
    repeats: int = REPEATS,
    seconds: float = ENERGY_SECONDS,
    progress: Progress | None = None,
) -> Measured:
    """Measure a model on texts, here and now.

    Args:
        checkpoint: the model.
        examples: what it reads; labels do not matter.
        texts: which texts these are, in words.
        country: whose electricity, as a three-letter ISO code.
        repeats: passes that are timed; texts are taken in turn.
        seconds: how long to run for the energy.
        progress: told after each of the steps.

    Raises:
        ValueError: if there is no text, or codecarbon is missing or does not know the country.
    """
    report = progress or (lambda done, total: None)
    model, tokenizer, config = checkpoint.model, checkpoint.tokenizer, checkpoint.config
    if not len(examples):
        raise ValueError("there are no texts to measure")
    machine = this_machine()
    inputs = tokenizer.encode_ids(examples.texts, examples.text_pairs, config.max_len)
    records = evaluate_ids(model, tokenizer, inputs, examples.labels)
    report(1, STEPS)
    times = latency(checkpoint, examples.texts, repeats, examples.text_pairs)
    report(2, STEPS)
    length, heads = _longest(records)
    memory = peak_memory(config, 1, length, heads)
    report(3, STEPS)
    batches = [tokenizer.batch([row]) for row in inputs]

    def work() -> None:
        for batch in batches:
            model(*batch)

    with one_thread(), torch.inference_mode():
        energy = measure_energy(work, country, seconds)
    report(4, STEPS)
    scale = PER_TEXTS / len(inputs)
    return Measured(
        texts=texts,
        n_texts=len(inputs),
        mean_tokens=float(records.n_tokens.mean()),
        executed_heads_frac=float(records.executed_fractions.mean()),
        date=datetime.now(UTC).date().isoformat(),
        machine=replace(machine, threads=1),
        **asdict(times),
        memory_length=length,
        resident_bytes=memory.before_bytes,
        forward_bytes=memory.forward_bytes,
        energy_j=energy.energy_j * scale,
        emissions_g=energy.emissions_g * scale,
        seconds=energy.seconds * scale,
        country=country,
        energy_source=energy.source,
    )


def spread(examples: Examples, n: int) -> Examples:
    """Return n examples, evenly over all of them: a file may be sorted by class or length."""
    return examples.take(
        np.linspace(0, len(examples) - 1, min(n, len(examples))).astype(int).tolist()
    )


def own_texts(path: Path, n_segments: int) -> Examples:
    """Read texts without labels: one a line; the two of a pair are separated by a tab.

    Raises:
        ValueError: for a file that cannot be read or a line without the second text.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows, start=1):
        if len(row) != n_segments:
            wanted = "a single text" if n_segments == 1 else "two texts with a tab between them"
            raise ValueError(f"{path}: text {number} is not {wanted}: {lines[number - 1][:40]!r}")
    pairs = tuple(row[1] for row in rows) if n_segments == 2 else None
    return Examples(tuple(row[0] for row in rows), (0,) * len(rows), pairs)


def this_machine() -> Machine:
    """Name this machine."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        system=platform.system(),
        load=round(load, 2),
    )


def to_dict(measured: Measured) -> dict[str, Any]:
    """Return what was measured as JSON-ready data."""
    return asdict(measured)


def _processor() -> str:
    """Return the processor's name, as the system knows it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def _longest(records: Records) -> tuple[int, list[int]]:
    """Return the longest text's tokens and its k of each layer."""
    row = int(records.n_tokens.argmax())
    return int(records.n_tokens[row]), [int(k) for k in records.executed_heads[row]]
