"""Scored sets with made-up numbers, for tests of what reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from budgetformer.evaluate import Records
from budgetformer.records import Reference, ScoredSet, Source, entropy, row_hash

WORDS = ("good", "bad", "Fine", "dull", "great", "poor", "(odd)", "plain")


def make_scored(n: int = 60, n_classes: int = 3, seed: int = 0, **change: Any) -> ScoredSet:
    """Return n random examples of a model with two layers of four heads."""
    g = np.random.default_rng(seed)
    labels = tuple("abcdefghijklmnop"[:n_classes])
    p = g.dirichlet(np.full(n_classes, 0.7), n).astype(np.float32)
    gold = g.integers(0, n_classes, n)
    heads = g.random((n, 2, 4)) < 0.4
    heads[..., 0] |= ~heads.any(axis=2)
    texts = tuple(f"{WORDS[i % 8]} film {i} {WORDS[(i * 5) % 8]}" for i in range(n))
    q = g.dirichlet(np.ones(n_classes), n).astype(np.float32)
    scored = ScoredSet(
        source=Source(
            model="made-up", data="nowhere", split="test", labels=labels, n_layers=2, n_heads=4,
            routed=True, weights="0" * 64, version="0", references={"dense": "its twin"},
        ),
        rows=np.arange(n),
        records=Records(
            labels=gold,
            probabilities=p,
            losses=-np.log(p[np.arange(n), gold]),
            n_tokens=g.integers(4, 40, n),
            budgets=g.random((n, 2)).astype(np.float32),
            heads=heads,
        ),
        truncated=g.random(n) < 0.1,
        flops=g.integers(10**6, 10**7, n),
        hashes=np.array([row_hash(text) for text in texts], np.uint64),
        references={
            "dense": Reference(q.argmax(axis=1), -np.log(q[np.arange(n), gold]), entropy(q))
        },
        texts=texts,
    )  # fmt: skip
    return replace(scored, **change)
