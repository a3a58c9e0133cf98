"""Does attributing over and over keep memory? Prints how much the process grew.

    python benchmarks/attribution_memory.py --model checkpoints/imdb --n 200

Run it by hand: what it prints is quoted, not asserted.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer import Checkpoint, predict
from budgetformer.attribution import integrated_gradients
from budgetformer.attribution_targets import Target

WORDS = "The film was not bad, but it was long and I did not like the ending. "
WARM_UP = 10  # the first ones fill caches of torch and captum


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="checkpoints/imdb")
    parser.add_argument("--n", type=int, default=200, help="attributions")
    parser.add_argument("--tokens", type=int, default=256, help="length of the text, about")
    options = parser.parse_args()

    model = Checkpoint.from_pretrained(options.model)
    # The sentence is 17 tokens long.
    trace = predict(model, WORDS * max(1, options.tokens // 17))
    targets = [Target.logit(trace.label)]
    if model.config.routed and not model.config.fixed_heads:
        targets.append(Target.mean_budget())
    for i in range(WARM_UP):
        integrated_gradients(model, trace, targets[i % len(targets)])
    before, start = resident_mb(), time.perf_counter()
    for i in range(options.n):
        integrated_gradients(model, trace, targets[i % len(targets)])
    seconds = (time.perf_counter() - start) / max(1, options.n)
    print(
        f"{options.n} attributions of {len(trace.encoding.ids)} tokens: "
        f"{resident_mb() - before:+.1f} MB, {seconds:.2f} s each"
    )


def resident_mb() -> float:
    """Memory that the process holds, in MB; from Linux's /proc."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
