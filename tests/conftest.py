"""What tests of several tiers share; shape checks at run time in all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import jaxtyping
import pytest

# All modules but the configurations, whose values come from files and are checked by hand, and the
# command line. It stands here, before any test imports the library.
CHECKED = (
    "ablation attention attribution attribution_function attribution_heads budget checkpoint cost "
    "data evaluate executor faithfulness internals losses model policies pretrained tokenizer "
    "trace train"
)
jaxtyping.install_import_hook(
    [f"budgetformer.{module}" for module in CHECKED.split()], "beartype.beartype"
)

ROOT = Path(__file__).resolve().parent.parent

HOSTILE = (
    'ok <!-- x --> <img src=x onerror=alert(1)> <iframe srcdoc="<script>1</script>"> '
    "$5 and $9 **bold** :red[x] # h _y_"
)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models of every kind, healthy and not; all but imdb have random weights."""
    import torch

    from budgetformer import BudgetFormer, Checkpoint, ModelConfig

    folder = tmp_path_factory.mktemp("checkpoints")
    shutil.copytree(ROOT / "checkpoints" / "imdb", folder / "imdb")
    tokenizer = Checkpoint.from_pretrained(folder / "imdb").tokenizer

    def save(name: str, labels: tuple[str, ...], n_segments: int = 1, routed: bool = True) -> None:
        config = ModelConfig(
            vocab_size=tokenizer.vocab_size,
            labels=labels,
            n_layers=3,
            n_heads=4,
            d_model=16,
            d_ff=16,
            d_router=4,
            max_len=32,
            n_segments=n_segments,
            routed=routed,
        )
        model = BudgetFormer(config)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.4, generator=generator)
        Checkpoint(model, tokenizer).save_pretrained(folder / name)

    save("dense", ("negative", "positive"), routed=False)
    save("pair", ("contradiction", "entailment", "neutral"), n_segments=2)
    save("<b>odd $1 $2", tuple(f"<i>class {i}</i> **$x$**" for i in range(9)))
    shutil.copytree(folder / "imdb", folder / "cut off")
    weights = folder / "cut off" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    (folder / "not json").mkdir()
    (folder / "not json" / "config.json").write_text("{")
    shutil.copytree(folder / "imdb", folder / "half")
    (folder / "half" / "tokenizer.json").unlink()
    return folder
