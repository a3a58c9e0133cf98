"""The summaries x̄ that a router reads, flattened to two axes (principal components)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Projection:
    """Points on the two axes along which they differ most."""

    points: NDArray[np.float64]
    """(N, 2)."""
    explained: tuple[float, float]
    """Share of the variance on each axis, in [0, 1]."""


def project(summaries: NDArray[np.float32]) -> Projection:
    """Project vectors on their first two principal components (scikit-learn's PCA).

    Each axis points to where its largest loading is positive, so that the same vectors always give
    the same picture.

    Args:
        summaries: one row an example, (N, D), D at least 2.

    Raises:
        ValueError: for fewer than three examples, or vectors that are all the same.
    """
    from sklearn.decomposition import PCA

    if len(summaries) < 3:
        raise ValueError(f"a projection needs at least three examples, got {len(summaries)}")
    values = summaries.astype(np.float64)
    if np.ptp(values, axis=0).max() == 0:
        raise ValueError("every example has the same summary: there is nothing to spread out")
    found = PCA(n_components=2, svd_solver="full").fit(values)
    sign = np.sign(found.components_[[0, 1], np.abs(found.components_).argmax(axis=1)])
    first, second = (float(share) for share in found.explained_variance_ratio_)
    return Projection(np.asarray(found.transform(values) * sign), (first, second))
