"""How time grows with batch, length, width, heads and layers: all heads against a quarter of them.

    OMP_NUM_THREADS=1 python benchmarks/growth.py --out growth.json

Around one shape, one number moves at a time. Beside each measured time stands the closed form.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.config import ModelConfig, write_json
from budgetformer.cost import dense_flops, flops
from budgetformer.measure import this_machine
from budgetformer.timing import time_shape, twins

BASE = ModelConfig(
    vocab_size=1000, labels=("a", "b"), n_layers=2, n_heads=16, d_model=256, d_ff=1024, max_len=256
)
BATCH = 1
AXES: dict[str, tuple[int, ...]] = {
    "length": (32, 64, 128, 256, 512, 1024),
    "batch": (1, 2, 4, 8, 16, 32),
    "d_model": (64, 128, 256, 512, 768),
    "n_heads": (4, 8, 16, 32),
    "n_layers": (1, 2, 4, 8, 12),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5, help="a case (default: 1.5)")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = [measure(axis, value, args.seconds) for axis, values in AXES.items() for value in values]
    if args.out:
        found = {"machine": asdict(this_machine()), "rows": rows}
        write_json(args.out, found)


def measure(axis: str, value: int, seconds: float) -> dict[str, float | int | str]:
    """Time the base shape with one number changed; k is a quarter of the heads."""
    config, batch, length = BASE, BATCH, BASE.max_len
    if axis == "length":
        length, config = value, replace(BASE, max_len=value)
    elif axis == "batch":
        batch = value
    elif axis == "d_model":
        config = replace(BASE, d_model=value, d_ff=4 * value)
    else:
        config = replace(BASE, **{axis: value})
    k = config.n_heads // 4
    found = time_shape(*twins(config), batch, length, k, seconds)
    row = {"axis": axis, "value": value, **found.to_dict()}
    row["dense_flops"] = batch * dense_flops(config, length).model
    row["sparse_flops"] = batch * flops(config, length, [k] * config.n_layers).model
    print(axis, value, found, flush=True)
    return row


if __name__ == "__main__":
    main()
