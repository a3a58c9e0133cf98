"""Join AG News, TREC and SNLI into one data set of easy texts and hard pairs.

    python benchmarks/make_mixed.py DATA_FOLDER OUT.csv.gz

DATA_FOLDER holds the folders ag_news, trec and snli. A pair becomes one text, joined by " || ".
Every source keeps its own labels, so the label set is their union (13 classes); the column source
tells the rows apart. Every split is a seeded sample.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from budgetformer.data import load_dataset

SEED = 0
ROWS = {"snli": (8000, 600, 2000), "ag_news": (6000, 400, 1500), "trec": (5400, 200, 500)}


def main() -> None:
    """Write the joined file."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    frames = [_sample(folder / name, name, sizes) for name, sizes in ROWS.items()]
    pd.concat(frames, ignore_index=True).to_csv(out, index=False)


def _sample(path: Path, name: str, sizes: tuple[int, int, int]) -> pd.DataFrame:
    dataset = load_dataset(str(path))
    frames = []
    for split, size in zip(("train", "validation", "test"), sizes, strict=True):
        rows = dataset.split(split)
        texts: list[str] = list(rows.texts)
        if rows.text_pairs is not None:
            texts = [f"{a} || {b}" for a, b in zip(texts, rows.text_pairs, strict=True)]
        frame = pd.DataFrame(
            {"text": texts, "label": [dataset.label_names[i] for i in rows.labels]}
        )
        frame = frame.sample(min(size, len(frame)), random_state=SEED)
        frames.append(frame.assign(split=split, source=name))
    return pd.concat(frames, ignore_index=True)


if __name__ == "__main__":
    main()
