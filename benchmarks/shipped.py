"""What the Efficiency page shows of the shipped models: sweep.json and measured.json of each.

    OMP_NUM_THREADS=1 python benchmarks/shipped.py --measure      on a quiet machine, a minute each
    OMP_NUM_THREADS=1 python benchmarks/shipped.py --sweep        minutes to an hour each

A model is measured on the data set that its metrics.json names; one whose data set is not on this
machine is named and left out. Set BUDGETFORMER_DATA where the data sets lie.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.config import read_json
from budgetformer.efficiency import METRICS, read_sweep
from budgetformer.own_data import is_local

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="time, memory and energy")
    parser.add_argument("--sweep", action="store_true", help="accuracy under every policy")
    parser.add_argument("--stale", action="store_true", help="sweep only where that is missing")
    parser.add_argument("names", nargs="*", help="models (default: all in checkpoints/)")
    args = parser.parse_args()
    if not (args.measure or args.sweep):
        parser.error("say what to do: --measure, --sweep or both")
    failed = 0
    for path in sorted((ROOT / "checkpoints").glob(f"*/{METRICS}")):
        folder = path.parent
        if args.names and folder.name not in args.names:
            continue
        data = read_json(path).get("test", {}).get("data", "")
        if not data or not is_local(data):
            print(f"{folder.name}: left out, the data set {data!r} is not on this machine")
            continue
        for command in ("sweep",) * args.sweep + ("measure",) * args.measure:
            if command == "sweep" and args.stale and not _needs_sweep(folder):
                continue
            print(f"{folder.name}: {command}", flush=True)
            words = ["-m", "budgetformer", command, "--model", str(folder), "--data", data]
            failed |= subprocess.run([sys.executable, *words, "--save"], cwd=ROOT).returncode
    return failed


def _needs_sweep(folder: Path) -> bool:
    found = read_sweep(folder)
    return found is None or found.outdated


if __name__ == "__main__":
    sys.exit(main())
