"""BudgetFormer, top to bottom: embedding, layer, encoder, classifier.

Notation: B examples, T tokens, D model width, H heads, L layers; X (B, T, D) is a layer's input,
M (B, T) the mask, True at real tokens. Source: arXiv 2604.22583.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from budgetformer.attention import BudgetedAttention
from budgetformer.budget import Router, Routing, Selection, masked_mean
from budgetformer.config import ModelConfig
from budgetformer.executor import PIECE_TOKENS
from budgetformer.policies import Policy, all_heads, first_heads, predicted

LAYER_NORM_EPS = 1e-12  # BERT's value


class LayerOutput(NamedTuple):
    """What one layer decided."""

    routing: Routing
    selection: Selection


class ModelOutput(NamedTuple):
    """Logits and every layer's decision."""

    logits: Float[Tensor, "B C"]
    layers: list[LayerOutput]


class Embedding(nn.Module):
    """Token, position and, for text pairs, segment embeddings."""

    def __init__(self, config: ModelConfig) -> None:
        """Create the three tables; the segment table only when there are two segments."""
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.d_model)
        self.position = nn.Embedding(config.max_len, config.d_model)
        self.segment = (
            nn.Embedding(config.n_segments, config.d_model) if config.n_segments > 1 else None
        )
        self.norm = nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPS)
        self.dropout = nn.Dropout(config.dropout)
        for table in (self.token, self.position, self.segment):
            if table is not None:
                nn.init.normal_(table.weight, std=0.02)

    def forward(
        self,
        tokens: Float[Tensor, "B T D"],
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Add positions and segments to the tokens' vectors."""
        x = tokens + self.position.weight[: tokens.shape[1]]
        if self.segment is not None and segments is not None:
            x = x + self.segment(segments)
        embedded: Tensor = self.dropout(self.norm(x))
        return embedded


class FeedForward(nn.Sequential):
    """Two linear layers with a GELU between them."""

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Expand, bend and contract each token."""
        expand, bend, contract = self
        hidden = expand(x)
        # The widest tensor of the model: a second one of its size costs as much as the GELU.
        hidden = bend(hidden) if torch.is_grad_enabled() else torch.ops.aten.gelu_(hidden)
        contracted: Tensor = contract(hidden)
        return contracted


class Layer(nn.Module):
    """One encoder layer: router, budgeted attention, feed-forward."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        """Create the sub-layers; a dense model has no router."""
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.n_heads = config.n_heads
        self.dense_budget = (config.fixed_heads or config.n_heads) / config.n_heads
        scores_only = config.budgets == "shared" and index > 0
        self.router = Router(config, scores_only) if config.routed else None
        self.attention = BudgetedAttention(config.d_model, config.n_heads, config.output_scale)
        self.attention_norm = nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPS)
        self.feed_forward = FeedForward(
            nn.Linear(config.d_model, config.d_ff),
            nn.GELU(),
            nn.Linear(config.d_ff, config.d_model),
        )
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPS)
        self.dropout = nn.Dropout(config.dropout)

    def route(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"] | None,
        budget: Float[Tensor, " B"] | None = None,
    ) -> Routing:
        """Return s and z; a dense layer has a constant s and no preference among heads."""
        if self.router is not None:
            routing: Routing = self.router(x, mask, budget)
            return routing
        budget = x.new_full((x.shape[0],), self.dense_budget)
        return Routing(budget, x.new_zeros(x.shape[0], self.n_heads))

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"] | None,
        index: int,
        policy: Policy,
        skip: bool,
        budget: Float[Tensor, " B"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], LayerOutput]:
        """Route, attend with the chosen heads, then feed forward."""
        attention_input = self.attention_norm(x) if self.pre_norm else x
        routing = self.route(attention_input, mask, budget)
        selection = policy(index, routing)
        attended = self.attention(attention_input, mask, selection, skip)
        if selection.offset is not None:
            attended = attended + selection.offset.unsqueeze(1)
        x = x + self._drop(attended)
        if not self.pre_norm:
            x = self.attention_norm(x)
        n_tokens = x.shape[0] * x.shape[1]
        if torch.is_grad_enabled() or n_tokens <= PIECE_TOKENS:
            x = self._feed(x)
        else:
            for piece in torch.split(x.view(n_tokens, -1), PIECE_TOKENS):
                piece.copy_(self._feed(piece))
        return x, LayerOutput(routing, selection)

    def _drop(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        # A call of the module that does nothing takes as long as an addition.
        return self.dropout(x) if self.training else x

    def _feed(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        if self.pre_norm:
            return x + self._drop(self.feed_forward(self.feed_forward_norm(x)))
        fed: Tensor = self.feed_forward_norm(x + self._drop(self.feed_forward(x)))
        return fed


class _NoInitialisation(TorchFunctionMode):
    """Leave new weights as they are; even on no device, drawing them loads torch's compiler."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call what torch was asked for, unless it fills a tensor with initial values."""
        if getattr(function, "__module__", "") != "torch.nn.init":
            return function(*args, **(kwargs or {}))


class BudgetFormer(nn.Module):
    """Transformer encoder for text classification with a head budget for each input."""

    def __init__(self, config: ModelConfig) -> None:
        """Create a model with random weights, drawn from torch's global generator."""
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.n_layers))
        self.final_norm = (
            nn.LayerNorm(config.d_model, eps=LAYER_NORM_EPS)
            if config.norm == "pre"
            else nn.Identity()
        )
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, len(config.labels))

    @classmethod
    def without_weights(cls, config: ModelConfig) -> BudgetFormer:
        """Create a model that takes no memory, for weights that are loaded into it later."""
        with torch.device("meta"), _NoInitialisation():
            return cls(config)

    @property
    def own_policy(self) -> Policy:
        """How the model chooses heads when it is left alone."""
        if self.config.routed:
            return predicted(self.config.rounding)
        return first_heads(self.config.fixed_heads) if self.config.fixed_heads else all_heads()

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None = None,
        policy: Policy | None = None,
        skip: bool = True,
    ) -> ModelOutput:
        """Classify token ids.

        Args:
            ids: token ids in [0, vocab_size), T at most max_len.
            mask: True at real tokens; padding takes part in nothing.
            segments: 0 or 1 a token, for text pairs.
            policy: how heads are chosen; the model's own choice when None.
            skip: False computes every head and masks it, as a reference.
        """
        return self.forward_tokens(self.embedding.token(ids), mask, segments, policy, skip)

    def forward_tokens(
        self,
        tokens: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None = None,
        policy: Policy | None = None,
        skip: bool = True,
    ) -> ModelOutput:
        """Classify token vectors: what attributions differentiate."""
        real = None if bool(mask.all()) else mask
        outputs = self.run_layers(
            self.embedding(tokens, segments), real, policy or self.own_policy, skip
        )
        decisions = []
        for output, decision in outputs:
            x = output
            decisions.append(decision)
        pooled = masked_mean(self.final_norm(x), real)
        return ModelOutput(self.classifier(self.dropout(pooled)), decisions)

    def run_layers(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"] | None,
        policy: Policy,
        skip: bool,
    ) -> Iterator[tuple[Float[Tensor, "B T D"], LayerOutput]]:
        """Run the layers on embedded tokens; yield what each puts out and decides."""
        shared = None
        for index, layer in enumerate(self.layers):
            x, decision = layer(x, mask, index, policy, skip, shared)
            if self.config.budgets == "shared" and index == 0:
                shared = decision.routing.budget
            yield x, decision
