from __future__ import annotations

import pytest

from budgetformer import Checkpoint, predict
from budgetformer.stopwatch import stopwatch


def test_it_runs_both_ways_in_turns(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = predict(checkpoint, "a good film")
    ran: list[int] = []
    forward = type(checkpoint.model).forward

    def counted(model, *args, policy, **kwargs):  # type: ignore[no-untyped-def]
        output = forward(model, *args, policy=policy, **kwargs)
        ran.append(sum(int(layer.selection.heads.sum()) for layer in output.layers))
        return output

    monkeypatch.setattr(type(checkpoint.model), "forward", counted)
    timing = stopwatch(checkpoint, trace, rounds=4)
    full = checkpoint.config.n_layers * checkpoint.config.n_heads
    assert ran == [trace.executed_heads, full] * 7  # three to warm up
    assert timing.rounds == 4 and timing.threads >= 1
    assert timing.chosen_ms > 0 and timing.speed_up == timing.full_ms / timing.chosen_ms
