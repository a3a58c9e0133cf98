"""How long the Explore page takes while a training runs, and while the same training is held.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/rerun_beside_training.py

A training is started as the app starts it. Reruns with another text alternate between holding it
and letting it run, so whatever else the machine does weighs on both alike.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from explore_rerun import open_page, text_of  # noqa: E402

from app import jobs  # noqa: E402
from budgetformer import Checkpoint  # noqa: E402
from budgetformer.job_queue import read_job  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="imdb")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    checkpoint = Checkpoint.from_pretrained(ROOT / "checkpoints" / options.model)
    texts = [text_of(options.tokens, checkpoint, f"Number {i}:") for i in range(options.rounds + 1)]
    with tempfile.TemporaryDirectory() as runs:
        os.environ["BUDGETFORMER_RUNS"] = runs
        jobs.start("beside", {"data": "rotten_tomatoes", "train": {"epochs": 1000}, "model": {}})
        job = read_job(Path(runs) / "beside")
        assert job is not None
        try:
            page = open_page("see", texts[0], options.model)
            while jobs.state("beside").status in ("waiting", "starting"):
                time.sleep(0.1)
            wall: dict[bool, list[float]] = {False: [], True: []}
            cpu: dict[bool, list[float]] = {False: [], True: []}
            for i, text in enumerate(texts[1:]):
                trains = bool(i % 2)
                os.kill(job.pid, signal.SIGCONT if trains else signal.SIGSTOP)
                page.text_area("explore_text").set_value(text)
                start, start_cpu = time.perf_counter(), time.process_time()
                page.run()
                wall[trains].append(1000 * (time.perf_counter() - start))
                cpu[trains].append(1000 * (time.process_time() - start_cpu))
                assert not page.exception
        finally:
            os.kill(job.pid, signal.SIGKILL)
    for trains, name in ((False, "training held"), (True, "training running")):
        print(
            f"{name:18} {median(wall[trains]):6.0f} ms (best {min(wall[trains]):.0f}), "
            f"of the processor {median(cpu[trains]):.0f} ms"
        )


if __name__ == "__main__":
    main()
