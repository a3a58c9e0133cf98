"""Score a data set, batched by length, with a shipped model and with its dense twin.

    OMP_NUM_THREADS=1 python benchmarks/dataset.py --model checkpoints/imdb --data imdb --limit 500

The twin has the same weights and runs every head. Both score the same batches in turn; the model
chooses its heads itself. Writes JSON to standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.checkpoint import Checkpoint
from budgetformer.cost import dense_flops, flops
from budgetformer.data import load_dataset
from budgetformer.evaluate import length_batches
from budgetformer.timing import dense_twin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint = Checkpoint.from_pretrained(args.model)
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    examples = load_dataset(args.data).split_for(args.split, config.labels).first(args.limit)
    inputs = tokenizer.encode_ids(examples.texts, examples.text_pairs, config.max_len)
    models = {"dense": dense_twin(checkpoint.model), "sparse": checkpoint.model}
    seconds = dict.fromkeys(models, 0.0)
    executed, counted, dense_counted = [], 0, 0
    with torch.inference_mode():
        for rows in length_batches(inputs, args.batch_size):
            batch = tokenizer.batch([inputs[row] for row in rows])
            for name, model in models.items():
                start = time.perf_counter()
                output = model(*batch)
                seconds[name] += time.perf_counter() - start
            k = torch.stack([layer.selection.executed_heads for layer in output.layers], dim=1)
            executed += k.tolist()
            for row, heads in zip(rows, k.tolist(), strict=True):
                counted += flops(config, len(inputs[row].ids), heads).model
                dense_counted += dense_flops(config, len(inputs[row].ids)).model
    speedup, limit = seconds["dense"] / seconds["sparse"], dense_counted / counted
    figures = {
        "rows": len(inputs),
        "mean_tokens": float(np.mean([len(row.ids) for row in inputs])),
        "executed_heads_frac": float(np.mean(executed) / config.n_heads),
        **{f"{name}_ms_per_text": 1e3 * s / len(inputs) for name, s in seconds.items()},
        "speedup": speedup,
        "limit": limit,
        "fraction_of_limit": speedup / limit,
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
