"""Where the executed heads of one input look: attention probabilities, by piece or by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgetformer.checkpoint import Checkpoint
from budgetformer.internals import head_outputs, layer_inputs
from budgetformer.trace import Trace, held_heads


@dataclass(frozen=True)
class Unit:
    """One row and column of a map: a piece, or the pieces of a word together."""

    text: str
    """As typed; a special token, or a piece, as the vocabulary spells it."""
    segment: int
    """0 for the first text, 1 for the second."""
    special: bool
    """True at [CLS] and [SEP]."""
    tokens: tuple[int, ...]
    """Positions in the encoding."""


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Attention of one executed head."""

    layer: int
    """From 0."""
    head: int
    """From 0."""
    weights: NDArray[np.float32]
    """Probabilities, queries (rows) by keys (columns), units by units; rows sum to 1."""


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Attention of the heads that one input ran; skipped heads computed none."""

    units: tuple[Unit, ...]
    """What the rows and columns stand for."""
    maps: tuple[AttentionMap, ...]
    """By layer, then by head."""

    def find(self, layer: int, head: int) -> AttentionMap | None:
        """Return a head's map, None where it was skipped."""
        found = (m for m in self.maps if (m.layer, m.head) == (layer, head))
        return next(found, None)


def attention_maps(
    checkpoint: Checkpoint, trace: Trace, layers: Sequence[int] | None = None
) -> AttentionMaps:
    """Compute the maps of the heads that a trace ran, over pieces.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to look into, with whatever heads were forced on it.
        layers: which layers, all when None.

    Raises:
        ValueError: for a layer that the model does not have.
    """
    n_layers = len(trace.layers)
    wanted = range(n_layers) if layers is None else layers
    for layer in wanted:
        if not 0 <= layer < n_layers:
            raise ValueError(f"layer {layer} is none of the model's {n_layers}")
    batch = checkpoint.tokenizer.batch([trace.encoding])
    inputs = layer_inputs(checkpoint.model, batch, held_heads(trace))
    maps = []
    for layer in wanted:
        heads, x = trace.layers[layer].heads, inputs[layer]
        found = head_outputs(checkpoint.model, layer, x, batch.mask, list(heads))
        weights = found.weights[0].numpy()
        maps += [AttentionMap(layer, head, w) for head, w in zip(heads, weights, strict=True)]
    return AttentionMaps(piece_units(trace), tuple(maps))


def by_word(maps: AttentionMaps, trace: Trace) -> AttentionMaps:
    """Merge the pieces of each word: a sum over key pieces, a mean over query pieces.

    So a row is still a distribution: the share of attention that the word's pieces pay, on average,
    to each word as a whole.
    """
    units = word_units(trace)
    groups = [unit.tokens for unit in units]
    merged = tuple(AttentionMap(m.layer, m.head, merge(m.weights, groups)) for m in maps.maps)
    return AttentionMaps(units, merged)


def merge(weights: NDArray[np.float32], groups: Sequence[tuple[int, ...]]) -> NDArray[np.float32]:
    """Merge a (T, T) map to (G, G): sums over the columns of a group, means over its rows."""
    member = np.zeros((len(groups), weights.shape[0]), dtype=np.float64)
    for row, group in enumerate(groups):
        member[row, list(group)] = 1
    means = member / member.sum(axis=1, keepdims=True)
    return np.asarray(means @ weights @ member.T, dtype=np.float32)


def piece_units(trace: Trace) -> tuple[Unit, ...]:
    """Return one unit for each piece that the model read."""
    encoding = trace.encoding
    columns = zip(encoding.tokens, encoding.segments, encoding.special, strict=True)
    return tuple(Unit(*column, (position,)) for position, column in enumerate(columns))


def word_units(trace: Trace) -> tuple[Unit, ...]:
    """Return one unit for each word and special token, in reading order."""
    units = [unit for unit in piece_units(trace) if unit.special]
    for word in trace.words:
        text = trace.texts[word.segment][word.start : word.end]
        units.append(Unit(text, word.segment, False, word.tokens))
    return tuple(sorted(units, key=lambda unit: unit.tokens))
