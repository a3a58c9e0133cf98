"""Evidence that skipped heads are not computed, taken from the running model.

While a text is classified, every operation that PyTorch starts is watched: which heads' projection
weights it reads, and how many FLOPs its matrix products take. Nothing is set on the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from budgetformer.checkpoint import Checkpoint
from budgetformer.cost import flops
from budgetformer.model import BudgetFormer, Layer
from budgetformer.policies import Policy

# The largest difference between the logits of the two forms that rounding explains.
TOLERANCE = 1e-4
VIEWS = {
    "alias",
    "detach",
    "select",
    "slice",
    "t",
    "transpose",
    "unsqueeze",
    "view",
    "_unsafe_view",
}


@dataclass(frozen=True)
class LayerAudit:
    """What one layer chose and what it computed."""

    chosen: tuple[int, ...]
    """Heads that the policy chose, ascending."""
    computed: tuple[int, ...]
    """Heads whose projection weights an operation read, ascending."""


@dataclass(frozen=True)
class Audit:
    """What was seen while one text was classified."""

    layers: tuple[LayerAudit, ...]
    """First layer first."""
    counted_flops: int
    """FLOPs of all matrix products as PyTorch counts them; attention's core is not among them."""
    expected_flops: int
    """The same in closed form, from the number of chosen heads."""
    max_difference: float
    """Largest difference between the logits of the skipping and of the masked form."""

    @property
    def passed(self) -> bool:
        """Whether exactly the chosen heads were computed, with the masked form's answer."""
        return (
            all(layer.chosen == layer.computed for layer in self.layers)
            and self.counted_flops == self.expected_flops
            and self.max_difference <= TOLERANCE
        )


@torch.no_grad()
def audit(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    policy: Policy | None = None,
) -> Audit:
    """Classify a text and compare what was computed with what was chosen.

    Raises:
        ValueError: if the text is empty, or a pair where the model reads single texts.
    """
    config = checkpoint.config
    encoding = checkpoint.tokenizer.encode(text, text_pair, config.max_len)
    batch = checkpoint.tokenizer.batch([encoding])
    with _Watch(checkpoint.model) as watch:
        output = checkpoint.model(*batch, policy=policy)
    masked = checkpoint.model(*batch, policy=policy, skip=False)
    chosen = [layer.selection.heads[0].nonzero().flatten().tolist() for layer in output.layers]
    expected = flops(config, batch.ids.shape[1], [len(heads) for heads in chosen])
    return Audit(
        layers=tuple(
            LayerAudit(tuple(heads), tuple(sorted(seen)))
            for heads, seen in zip(chosen, watch.heads, strict=True)
        ),
        counted_flops=watch.flops,
        expected_flops=expected.model - expected.attention_core,
        max_difference=float((output.logits - masked.logits).abs().max()),
    )


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the heads whose query, key and value weights are read, layer by layer, and FLOPs."""

    def __init__(self, model: BudgetFormer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.heads: list[set[int]] = [set() for _ in model.layers]
        self.flops = 0
        self._layers: dict[int, tuple[int, int]] = {}  # storage -> (layer, elements a head)
        for index, layer in enumerate(model.layers):
            assert isinstance(layer, Layer)
            weight = layer.attention.qkv_weight
            self._layers[weight.untyped_storage().data_ptr()] = (index, weight[0].numel())

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True imports torch's compiler, which takes longer than all that is watched.
        return False

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func.__name__.split(".")[0]
        if name not in VIEWS:
            for tensor in _tensors(args):
                found = self._layers.get(tensor.untyped_storage().data_ptr())
                if found is not None:
                    layer, per_head = found
                    self.heads[layer].update(_heads(name, args, tensor, per_head))
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        # This release counts nothing for the fused attention; a later one may.
        if func.overloadpacket in flop_registry and "attention" not in name:
            self.flops += flop_registry[func.overloadpacket](*args, **kwargs, out_val=out)
        return out


def _heads(name: str, args: Sequence[Any], weight: Tensor, per_head: int) -> Sequence[int]:
    """Return the heads that an operation reads of a view of the weights."""
    if name == "index_select":
        heads: list[int] = args[2].tolist()
        return heads
    first = weight.storage_offset() // per_head
    return range(first, first + weight.numel() // per_head)


def _tensors(args: Sequence[Any]) -> Iterator[Tensor]:
    for arg in args:
        if isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from _tensors(arg)
