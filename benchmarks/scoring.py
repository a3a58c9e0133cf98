"""What scoring a data set costs beside the model itself: tokens a second of both.

    .venv/bin/python benchmarks/scoring.py --model imdb --data imdb --rows 25000

The bare loop runs the model over the same batches, made beforehand, and keeps nothing. Scoring
reads texts, encodes them while the model runs, and writes the file. Both take turns, some thousand
rows each; the figures are medians over turns. On a busy machine the processor's time, to which
waiting does not add, says more than the clock; it counts the encoding beside the model in full, and
share_without_encoding leaves it out, as where a core is free for it.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from budgetformer import Checkpoint, load_dataset  # noqa: E402
from budgetformer.data import Examples  # noqa: E402
from budgetformer.evaluate import length_batches  # noqa: E402
from budgetformer.scoring import BATCH_ROWS, CHUNK_ROWS, encode, score  # noqa: E402


def clocked(work: Callable[[], object]) -> tuple[float, float]:
    start, start_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="imdb", help="name of a shipped model")
    parser.add_argument("--data", default="imdb")
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--rows-a-turn", type=int, default=2 * CHUNK_ROWS)
    options = parser.parse_args()
    checkpoint = Checkpoint.from_pretrained(ROOT / "checkpoints" / options.model)
    dataset = load_dataset(options.data)
    splits = [dataset.split_for(name, checkpoint.config.labels) for name in dataset.splits]
    texts = [text for split in splits for text in split.texts][: options.rows]
    labels = [label for split in splits for label in split.labels][: options.rows]
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(texts), options.rows_a_turn):
            part = slice(start, start + options.rows_a_turn)
            examples = Examples(tuple(texts[part]), tuple(labels[part]))
            batches, n_tokens, encoding = [], 0, 0.0
            for at in range(0, len(examples), CHUNK_ROWS):
                chunk = examples.take(range(at, min(at + CHUNK_ROWS, len(examples))))
                start_cpu = time.process_time()
                inputs, _ = encode(checkpoint, chunk)
                encoding += time.process_time() - start_cpu
                n_tokens += sum(len(row.ids) for row in inputs)
                for rows in length_batches(inputs, BATCH_ROWS):
                    batches.append(checkpoint.tokenizer.batch([inputs[row] for row in rows]))

            def bare(batches: list = batches) -> None:
                with torch.inference_mode():
                    for batch in batches:
                        checkpoint.model(*batch)

            def scoring(examples: Examples = examples, number: int = start) -> None:
                score(checkpoint, examples, Path(folder) / f"{number}.parquet", options.data)

            loop, whole = clocked(bare), clocked(scoring)
            turns.append((n_tokens, loop, whole, encoding))
            print(
                f"{start + len(examples):,} rows: bare {n_tokens / loop[0]:,.0f} tokens/s, scoring "
                f"{n_tokens / whole[0]:,.0f}, of it {loop[0] / whole[0]:.1%}",
                file=sys.stderr,
            )
    figures = {
        "rows": len(texts),
        "tokens": sum(n for n, *_ in turns),
        "threads": torch.get_num_threads(),
        "bare_tokens_a_second": median(n / loop[0] for n, loop, *_ in turns),
        "scoring_tokens_a_second": median(n / whole[0] for n, _, whole, _ in turns),
        "share_by_the_clock": median(loop[0] / whole[0] for _, loop, whole, _ in turns),
        "share_by_processor_time": median(loop[1] / whole[1] for _, loop, whole, _ in turns),
        "share_without_encoding": median(
            loop[1] / (whole[1] - encoding) for _, loop, whole, encoding in turns
        ),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
