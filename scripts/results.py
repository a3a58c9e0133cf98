"""Write the README's table of shipped models from their metrics.json; --check only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
START, END = "<!-- results: written by `make results` -->", "<!-- end of results -->"
HEADER = (
    "| model | training rows | test rows | accuracy | mean budget | executed heads "
    "| ρ(s, loss) | AUROC of s for errors |\n|---|---|---|---|---|---|---|---|"
)


def table() -> str:
    """Return the table, one row a checkpoint that was measured on its test split."""
    rows = [
        _row(path.parent.name, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(ROOT.glob("checkpoints/*/metrics.json"))
    ]
    return "\n".join([HEADER, *rows])


def _row(name: str, metrics: dict[str, Any]) -> str:
    test = metrics["test"]
    cells = [
        f"[{name}](checkpoints/{name}/README.md)",
        f"{metrics['training']['rows']:,}",
        f"{test['n']:,}",
        f"{test['accuracy']:.4f}",
        *(
            "–" if test[key] is None else f"{test[key]:.3f}"
            for key in (
                "mean_budget",
                "executed_heads_frac",
                "spearman_budget_loss",
                "auroc_budget_error",
            )
        ),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    """Rewrite the README, or say whether it is up to date."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    wanted = f"{before}{START}\n\n{table()}\n\n{END}{after}"
    if "--check" in sys.argv:
        return int(wanted != text)
    readme.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
