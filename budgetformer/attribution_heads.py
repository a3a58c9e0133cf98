"""Which heads the answer, or a later layer's budget, comes from: a number for each head that ran.

Each executed head's output is multiplied by a gate that goes from 0 to 1, all gates together, and
the gradient of the target with respect to each gate is integrated on the way. Gates are those of
Michel et al. (arXiv 1905.10650), the integral is that of integrated gradients (arXiv 1703.01365),
which makes it a conductance (arXiv 1805.12233) with the heads as its units; the path over all
layers' gates at once is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from budgetformer.attribution import HELD, Explanation, Method
from budgetformer.attribution_function import TargetFunction, integrate
from budgetformer.attribution_targets import Target
from budgetformer.checkpoint import Checkpoint
from budgetformer.trace import Trace

HEAD_GATES = Method("integrated gradients over the heads' gates", complete=True, passes_per_step=1)
NO_HEADS = "every head's output times 0; the text stays"


@dataclass(frozen=True)
class HeadAttribution(Explanation):
    """A number for each head of each layer."""

    head_values: tuple[tuple[float, ...], ...]
    """L rows of H values; exactly 0 for a head that did not run, and for all heads of the layers
    that stand at or after the router whose s or z is explained."""

    @property
    def total(self) -> float:
        """Sum over all heads."""
        return sum(sum(row) for row in self.head_values)

    @property
    def layer_values(self) -> tuple[float, ...]:
        """Sum over the heads of each layer, (L,)."""
        return tuple(sum(row) for row in self.head_values)


def head_contributions(
    checkpoint: Checkpoint, trace: Trace, target: Target | None = None, n_steps: int = 32
) -> HeadAttribution:
    """Attribute the target to the executed heads.

    Heads and their number are held, and with them the output scale √(H/k), so the values sum to
    the target with the text's heads minus the target with none: the words' own way past attention,
    and the attention's bias, remain. The values do not say what another head would have done.

    Args:
        checkpoint: the model that made the trace; a dense one will do, except for budgets.
        trace: the prediction to explain.
        target: what to explain; the predicted class's logit when None.
        n_steps: points of the Gauss-Legendre rule.

    Raises:
        ValueError: for a target that the model does not have, or n_steps below 1.
    """
    function = TargetFunction(checkpoint, trace, target)
    open_gates = function.heads.to(torch.float32).unsqueeze(0)  # (1, L, H)
    shut_gates = torch.zeros_like(open_gates)
    rows = function.rows_per_batch
    values = integrate(function.at_gates, open_gates, shut_gates, n_steps, rows)[0]  # (L, H)
    with torch.no_grad():
        value, baseline_value = function.at_gates(torch.cat([open_gates, shut_gates])).tolist()
    return HeadAttribution(
        target=function.target,
        method=HEAD_GATES,
        heads=HELD,
        value=value,
        baseline_value=baseline_value,
        baseline=NO_HEADS,
        n_steps=n_steps,
        n_forwards=HEAD_GATES.n_forwards(len(trace.words), n_steps),
        # Adding zero turns the -0.0 of heads without influence into 0.0.
        head_values=tuple(tuple(row) for row in (values + 0.0).tolist()),
    )
