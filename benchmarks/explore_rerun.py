"""How long the Explore page takes from a change to new pictures: server time, one user.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/explore_rerun.py

Each row is one kind of change, the median of several. The page is run by Streamlit's AppTest, so
the browser's own time is left out. AppTest runs the whole page, where a browser that changes
something within See or What if redraws only that part. On a busy machine the processor's time, to
which waiting does not add, says more than the clock.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from budgetformer import Checkpoint  # noqa: E402

REVIEW = (
    "I went in expecting very little, and for half an hour the film gave me exactly that. Then the "
    "old woman sits down at the piano, and nothing in the theatre moves until she has finished. "
)


def text_of(n_tokens: int, checkpoint: Checkpoint, first: str) -> str:
    """Return a text of this many tokens that starts with a word of its own."""
    text = first
    for word in (REVIEW * 40).split():
        longer = f"{text} {word}"
        if len(checkpoint.tokenizer.encode(longer, None, n_tokens + 8).ids) > n_tokens:
            break
        text = longer
    return text


def measure(name: str, change: Callable[[int], AppTest], rounds: int) -> None:
    wall, cpu = [], []
    for i in range(rounds):
        at = change(i)
        start, start_cpu = time.perf_counter(), time.process_time()
        at.run()
        wall.append(1000 * (time.perf_counter() - start))
        cpu.append(1000 * (time.process_time() - start_cpu))
        assert not at.exception
    print(
        f"{name:28} {median(wall):6.0f} ms (best {min(wall):.0f}), "
        f"of the processor {median(cpu):.0f} ms (best {min(cpu):.0f})"
    )


def open_page(part: str, text: str, model: str) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    for key, value in (("part", part), ("text", text), ("model", model)):
        at.query_params[f"explore_{key}"] = value
    return at.switch_page("../pages/explore.py").run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="imdb")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    checkpoint = Checkpoint.from_pretrained(ROOT / "checkpoints" / options.model)
    texts = [
        text_of(options.tokens, checkpoint, f"Number {i}:") for i in range(2 * options.rounds + 2)
    ]
    n_tokens = len(checkpoint.tokenizer.encode(texts[0], None, options.tokens + 8).ids)
    print(f"{options.model}, {n_tokens} tokens, median of {options.rounds} reruns, measured here")

    see = open_page("see", texts[0], options.model)
    fresh = iter(texts[1:])
    measure(
        "See: another text",
        lambda _: see.text_area("explore_text").set_value(next(fresh)) and see,
        options.rounds,
    )
    heads = see.selectbox("explore_head").options
    measure(
        "See: another head",
        lambda i: see.selectbox("explore_head").select_index(i % len(heads)) and see,
        options.rounds,
    )
    what_if = open_page("what-if", texts[0], options.model)
    measure(
        "What if: another text",
        lambda _: what_if.text_area("explore_text").set_value(next(fresh)) and what_if,
        options.rounds,
    )
    measure(
        "What if: a slider",
        lambda i: what_if.slider("explore_if_budget_1").set_value((i % 9 + 1) / 10) and what_if,
        options.rounds,
    )
    measure(
        "What if: a head forced out",
        lambda i: what_if.multiselect("explore_if_out").set_value([(0, i % 7)]) and what_if,
        options.rounds,
    )


if __name__ == "__main__":
    main()
