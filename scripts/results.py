"""Write the README's tables of results from the files beside the models; --check only compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.paper import reported

ROOT = Path(__file__).resolve().parent.parent
START, END = "<!-- results: written by `make results` -->", "<!-- end of results -->"
Json = dict[str, Any]


def tables() -> str:
    """Return all tables, each under a line that says what it shows."""
    models = _read("metrics.json")
    parts = [
        "Each model on the whole test split. FLOPs are counted in closed form, whole model, router "
        "included, against the dense twin's on the same texts.",
        table(
            "model | training rows | test rows | accuracy | mean budget | executed heads "
            "| FLOPs saved | ρ(s, loss)",
            [_model(name, metrics) for name, metrics in models.items()],
        ),
        "Beside what the paper reports (second-hand, other shapes and many more training rows):",
        table(
            "data | rows here | BudgetFormer here | dense twin | mean s | executed heads "
            "| rows there | BudgetFormer there | Transformer there | mean s",
            [row for name, metrics in models.items() for row in _beside(name, metrics, models)],
        ),
        "Does s follow difficulty: the AUROC of s for errors, those of the model itself and of two "
        "independent readers of the same texts. And does it pay: accuracy with the model's own "
        "budgets, minus accuracy with the same budgets dealt to other texts, or with the same k "
        "for all, at equal average heads; in points, paired, with 95 % intervals.",
        table(
            "model | own errors | dense twin's | linear model's "
            "| adaptive − shuffled | adaptive − fixed k",
            [_adaptive(name, found) for name, found in _read("adaptivity.json").items()],
        ),
    ]
    return "\n\n".join(parts)


def _read(file: str) -> dict[str, Json]:
    paths = sorted(ROOT.glob(f"checkpoints/*/{file}"))
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def table(header: str, rows: Iterable[list[str]]) -> str:
    """Write a table in Markdown; the header's cells are parted by " | "."""
    rule = "|" + "---|" * (header.count("|") + 1)
    return "\n".join([f"| {header} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])


def _model(name: str, metrics: Json) -> list[str]:
    test = metrics["test"]
    saved = 1 - test["flops_per_example"] / test["dense_flops_per_example"]
    return [
        f"[{name}](checkpoints/{name}/README.md)",
        f"{metrics['training']['rows']:,}",
        f"{test['n']:,}",
        f"{test['accuracy']:.4f}",
        f"{test['mean_budget']:.3f}",
        f"{test['executed_heads_frac']:.3f}",
        f"{100 * saved:.1f} %" if saved else "–",
        _number(test["spearman_budget_loss"]),
    ]


def _beside(name: str, metrics: Json, models: dict[str, Json]) -> list[list[str]]:
    """Return a model's row; none for a dense one, or for data that the paper has not."""
    test, paper = metrics["test"], reported(metrics["training"]["data"])
    if paper is None or test["executed_heads_frac"] == 1:
        return []
    return [
        [
            paper.name,
            f"{metrics['training']['rows']:,}",
            f"{test['accuracy']:.4f}",
            f"{models[f'{name}-dense']['test']['accuracy']:.4f}",
            f"{test['mean_budget']:.3f}",
            f"{test['executed_heads_frac']:.3f}",
            f"{paper.training_rows:,}",
            f"{paper.accuracy:.4f}",
            f"{paper.transformer_accuracy:.4f}",
            f"{paper.mean_budget:.3f}",
        ]
    ]


def _adaptive(name: str, found: Json) -> list[str]:
    judges = [found["difficulty"].get(judge) for judge in ("own", "dense", "linear")]
    return [
        name,
        *(_number(judge and judge["auroc_error"]["value"]) for judge in judges),
        *(_points(found["pays"][f"adaptive_minus_{rival}"]) for rival in ("shuffled", "fixed")),
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _points(estimate: Json) -> str:
    value, low, high = (
        f"{100 * estimate[key]:+.1f}".replace("-", "−") for key in ("value", "low", "high")
    )
    return f"{value} [{low}, {high}]"


def main() -> int:
    """Rewrite the README, or say whether it is up to date."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    wanted = f"{before}{START}\n\n{tables()}\n\n{END}{after}"
    if "--check" in sys.argv:
        return int(wanted != text)
    readme.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
