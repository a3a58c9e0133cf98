from __future__ import annotations

from budgetformer import ModelConfig
from budgetformer.memory import peak_memory


def test_a_pass_holds_at_least_its_hidden_layer() -> None:
    """B 4, T 256, d_ff 2048: computed in pieces of 512 tokens, 4 MiB each."""
    config = ModelConfig(
        vocab_size=10, labels=("a", "b"), d_model=64, n_heads=4, d_ff=2048, n_layers=1
    )
    found = peak_memory(config, batch=4, length=256, executed_heads=[1])
    assert found.before_bytes > 50e6
    assert 4 * 2**20 <= found.forward_bytes < 40 * 2**20
