"""What the paper reports (arXiv 2604.22583, version 1), in one place; PAPERS.md has the same table.

The figures are second-hand, from two summaries that agree, and nobody here has verified them. They
belong to another shape, other training rows and a GPU, so they stand beside ours, not against them.
The paper gives a mean budget s and no executed heads: with H = 8 at least 12.5 % of heads run.
"""

from __future__ import annotations

from dataclasses import dataclass

ARXIV = "2604.22583"
SHAPE = "4 layers, 8 heads, width 768"
N_LAYERS, N_HEADS, D_MODEL = 4, 8, 768


@dataclass(frozen=True)
class Reported:
    """One data set in the paper's main table."""

    name: str
    """As the paper writes it."""
    data: tuple[str, ...]
    """Names that the same data set has here."""
    training_rows: int
    transformer_accuracy: float
    """Of the ordinary Transformer, all heads on."""
    accuracy: float
    """Of BudgetFormer."""
    flops_saved: float
    """Share of the Transformer's FLOPs, in [0, 1]; the paper does not say which FLOPs count."""
    mean_budget: float
    """Mean of s."""


# name, names here, training rows, Transformer, BudgetFormer, FLOPs saved, mean s
REPORTED = tuple(
    Reported(*row)
    for row in (
        ("DBpedia", ("dbpedia14", "dbpedia"), 560_000, 0.9830, 0.9859, 0.032, 0.085),
        ("AG News", ("ag_news",), 120_000, 0.9099, 0.9022, 0.027, 0.212),
        ("IMDB", ("imdb",), 25_000, 0.8354, 0.8356, 0.100, 0.601),
        ("SNLI", ("snli",), 549_367, 0.7835, 0.8106, 0.021, 0.364),
        ("Yelp Full", ("yelp_full", "yelp"), 650_000, 0.5810, 0.6190, 0.201, 0.198),
    )
)


def reported(data: str) -> Reported | None:
    """Return what the paper reports for a data set; None where it has none of this name."""
    name = data.rstrip("/").rsplit("/", 1)[-1]
    return next((row for row in REPORTED if name in row.data), None)
