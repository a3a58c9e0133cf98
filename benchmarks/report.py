"""Write docs/speed.md, docs/controls.md and their plots from what the other studies measured.

    python benchmarks/report.py [--check]

Reads docs/measured/*.json. --check only tells whether the pages say what the files hold. The plots
are drawn by plotly in a browser; BUDGETFORMER_BROWSER names one other than Playwright's own.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from statistics import mean
from typing import Any
from urllib.parse import unquote

import plotly.graph_objects as go
from playwright.sync_api import sync_playwright
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.figures.style import BLUE, ORANGE
from scripts.results import table

DOCS = Path(__file__).resolve().parent.parent / "docs"
Json = dict[str, Any]
AXES = {
    "length": "tokens T", "batch": "texts B", "d_model": "width D", "n_heads": "heads H",
    "n_layers": "layers L",
}  # fmt: skip


def main() -> int:
    measured = {p.stem: json.loads(p.read_text()) for p in (DOCS / "measured").glob("*.json")}
    pages = {
        DOCS / "speed.md": speed_page(measured),
        DOCS / "controls.md": controls_page(measured["controls"], measured["scaling"]),
    }
    if "--check" in sys.argv:
        return int(any(path.read_text(encoding="utf-8") != text for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    save_plots(
        {
            "speed.svg": speed_figure(measured["speed"]["rows"]),
            "growth.svg": growth_figure(measured["growth"]["rows"]),
        }
    )
    return 0


def speed_page(measured: Json) -> str:
    """Say what was measured, and which goals were missed."""
    rows, twins = measured["speed"]["rows"], measured["speed"]["twins"]
    missed = [row for row in rows if row["speedup"] < row["goal"]]
    machine, goal = measured["speed"]["machine"], measured["shipped_speed"]["goal"]
    step_goal = measured["training_step"]["goal"]
    return "\n".join(
        [
            "# Skipped heads are time saved: what was measured",
            "",
            f"On one thread of {machine['processor']}, torch {machine['torch']}, single "
            "precision, whole models from token ids to logits, router included. Skipping and dense "
            "run in turn and medians are compared; the limit is the ratio of closed-form FLOPs. "
            f"The load of the machine's {machine['cores']} cores was {machine['load']:.1f}, the "
            "measurement included. `python -m budgetformer bench` measures the same on your "
            "machine.",
            "",
            "## Random models of two layers, D_ff = 4D",
            "",
            "![Speed-up against its limit](speed.svg)",
            "",
            f"{len(rows) - len(missed)} of {len(rows)} cases reach their goal: 0.92 of the limit "
            "from 256 tokens and 0.85 below, 1.28 times from 256 tokens with half of the heads, "
            "2.2 times for one text of 512 tokens at one head of eight. What is missed is mostly a "
            "single short text, where what no head count changes (the router, the calls from "
            "Python, normalisation) is a large part of a few milliseconds, and half of the heads "
            "at 256 tokens, where 1.28 lies close to the limit or above it.",
            "",
            table(
                "B | T | D | k of H | dense ms | skipping ms | speed-up | limit | of the limit "
                "| goal",
                (speed_cells(row) for row in rows),
            ),
            "",
            "## The dense twin beside `torch.nn.TransformerEncoder`",
            "",
            "Same shape, same vectors in; torch's with its fused fast path and without. "
            "Milliseconds.",
            "",
            table(
                "B | T | pre-norm: ours | fast path | plain | post-norm: ours | fast path | plain",
                (
                    [str(row["batch"]), str(row["length"])]
                    + [f"{row[f'{norm}_{kind}_ms']:.2f}" for norm in ("pre", "post")
                       for kind in ("ours", "fast", "slow")]
                    for row in twins
                ),
            ),
            "",
            "## Shipped models on their own test texts",
            "",
            f"Their own budgets, 32 texts of similar length at a time; goal: {goal} of the limit.",
            "",
            table(
                "model | tokens | executed heads | speed-up | limit | of the limit",
                (shipped_cells(row) for row in measured["shipped_speed"]["rows"]),
            ),
            "",
            "### Faster still?",
            "",
            "What three ways of computing would add on top of skipping, measured on "
            f"{measured['on_top']['machine']['processor']}. int8 weights are those of the linear "
            "layers, torch.compile takes the feed-forward blocks. None is offered as an option: "
            "those that save time change labels, if only a few, and a label must not depend on how "
            "it was computed.",
            "",
            table(
                "model | way | times as fast | labels changed | layers with other heads",
                (on_top_cells(row) for row in measured["on_top"]["rows"]),
            ),
            "",
            "## A training step beside the dense twin's",
            "",
            f"Median of the ratios, batch by batch; goal: {step_goal} for the aligned objective. "
            "The utility objective runs two passes a step. On "
            f"{measured['training_step']['machine']['processor']}.",
            "",
            table(
                "shape | dense ms | aligned | paper | utility",
                (
                    [row["shape"], f"{row['dense_ms']:.1f}"]
                    + [f"{row[f'{name}_ratio']:.2f}" for name in ("aligned", "paper", "utility")]
                    for row in measured["training_step"]["rows"]
                ),
            ),
            "",
            "## How time grows",
            "",
            "One number moves at a time around B = 1, T = 256, D = 256, H = 16, L = 2; a quarter "
            "of the heads runs. Dashed: closed-form FLOPs, scaled to the dense time at the "
            f"left end. On {measured['growth']['machine']['processor']}.",
            "",
            "![Time against length, batch, width, heads and layers](growth.svg)",
            "",
        ]
    )  # fmt: skip


def speed_cells(row: Json) -> list[str]:
    """Format a case; a missed goal is in bold."""
    speedup = f"{row['speedup']:.2f}"
    if row["speedup"] < row["goal"]:
        speedup = f"**{speedup}**"
    return [
        str(row["batch"]), str(row["length"]), str(row["d_model"]),
        f"{row['k']} of {row['n_heads']}",
        f"{row['dense_ms']:.2f}", f"{row['sparse_ms']:.2f}", speedup, f"{row['limit']:.2f}",
        f"{row['fraction_of_limit']:.2f}", f"{row['goal']:.2f}",
    ]  # fmt: skip


def shipped_cells(row: Json) -> list[str]:
    return [
        row["model"], f"{row['mean_tokens']:.0f}", f"{row['executed_heads_frac']:.3f}",
        f"{row['speedup']:.2f}", f"{row['limit']:.2f}", f"{row['fraction_of_limit']:.2f}",
    ]  # fmt: skip


def on_top_cells(row: Json) -> list[str]:
    return [
        row["model"], row["option"], f"{row['speedup']:.2f}",
        f"{row['labels_changed']} of {row['n_texts']}",
        f"{100 * row['heads_changed']:.1f} %",
    ]  # fmt: skip


def controls_page(controls: Json, scaling: Json) -> str:
    """Average each variant over its seeds."""
    model, n = controls["model"], controls["rows"][0]["n"]
    accuracy = controls["rows"][0]["accuracy"]
    noise = 196 * math.sqrt(accuracy * (1 - accuracy) / n)  # half of a 95 % interval, in points
    return "\n".join(
        [
            "# Objectives and controls, side by side",
            "",
            f"Small models ({model['n_layers']} layers, {model['n_heads']} heads, width "
            f"{model['d_model']}) trained from scratch on {controls['limit']:,} rows of "
            f"`{controls['data']}`, measured on {n:,} test rows. Each figure is a mean over "
            f"the seeds. So few rows place an accuracy within ±{noise:.1f} points (95 %): small "
            "differences between rows of this table say nothing. The two columns on the right "
            "compare the same texts, in points of accuracy at equal average heads.",
            "",
            table(
                "variant | seeds | accuracy | mean s | executed heads | ρ(s, loss) "
                "| AUROC of s for errors | adaptive − shuffled | adaptive − fixed k",
                (control_cells(name, rows) for name, rows in by_variant(controls["rows"])),
            ),
            "",
            "## Do larger models get smaller budgets?",
            "",
            "The paper says so. Here one number moves at a time, from the same kind of model "
            f"(2 layers, 8 heads, {scaling['limit']:,} rows) under the paper's own losses, which "
            "leave s free between 0.1 and 0.9. All read their rows as often, so more rows are "
            "also more steps.",
            "",
            table(
                "changed | seeds | accuracy | mean s | executed heads | ρ(s, loss)",
                (control_cells(name, rows)[:6] for name, rows in by_variant(scaling["rows"])),
            ),
            "",
        ]
    )  # fmt: skip


def by_variant(rows: list[Json]) -> list[tuple[str, list[Json]]]:
    """Put the rows of each variant together."""
    names = dict.fromkeys(row["variant"] for row in rows)
    return [(name, [row for row in rows if row["variant"] == name]) for name in names]


def control_cells(name: str, rows: list[Json]) -> list[str]:
    pays = [row["pays"] for row in rows if "pays" in row]
    return [
        name, str(len(rows)),
        span([row["accuracy"] for row in rows], ".4f"),
        span([row["mean_budget"] for row in rows], ".3f"),
        span([row["executed_heads_frac"] for row in rows], ".3f"),
        span([row["spearman_budget_loss"] for row in rows], "+.2f"),
        span([row["auroc_budget_error"] for row in rows], ".2f"),
        *(
            span([100 * found[f"adaptive_minus_{rival}"]["value"] for found in pays], "+.1f")
            for rival in ("shuffled", "fixed")
        ),
    ]  # fmt: skip


def span(values: list[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    low, high = (f"{value:{form}}" for value in (min(known), max(known)))
    middle = f"{mean(known):{form}}"
    return (middle if low == high else f"{middle} ({low} to {high})").replace("-", "−")


def speed_figure(rows: list[Json]) -> go.Figure:
    """Draw each case's speed-up against the ratio of FLOPs."""
    figure = go.Figure()
    ends = [1.0, 1.05 * max(row["limit"] for row in rows)]
    for part, name in ((1.0, "the limit"), (0.92, "0.92 of it"), (0.85, "0.85 of it")):
        figure.add_scatter(
            x=ends, y=[part * end for end in ends], mode="lines", name=name,
            line={"color": "#888", "width": 1, "dash": "solid" if part == 1 else "dot"},
        )  # fmt: skip
    for batch, color in ((1, ORANGE), (8, "#7a52a8"), (32, BLUE)):
        chosen = [row for row in rows if row["batch"] == batch]
        figure.add_scatter(
            x=[row["limit"] for row in chosen], y=[row["speedup"] for row in chosen],
            mode="markers", name=f"{batch} text{'s' if batch > 1 else ''} at a time",
            marker={"color": color, "size": [4 + row["length"] / 64 for row in chosen]},
        )  # fmt: skip
    figure.update_layout(
        template="simple_white", width=760, height=460, margin={"l": 60, "r": 20, "t": 20, "b": 60}
    )
    figure.update_xaxes(title="limit: closed-form FLOPs, dense over skipping")
    figure.update_yaxes(title="measured speed-up (larger points: longer texts)")
    return figure


def growth_figure(rows: list[Json]) -> go.Figure:
    """Draw measured times and closed forms, an axis a panel."""
    figure = make_subplots(1, len(AXES), horizontal_spacing=0.05)
    for column, (axis, title) in enumerate(AXES.items(), start=1):
        part = [row for row in rows if row["axis"] == axis]
        values = [row["value"] for row in part]
        scale = part[0]["dense_ms"] / part[0]["dense_flops"]
        for kind, name, color in (("dense", "all heads", ORANGE), ("sparse", "a quarter", BLUE)):
            figure.add_scatter(
                x=values, y=[row[f"{kind}_ms"] for row in part], name=name, mode="lines+markers",
                line={"color": color}, showlegend=column == 1, row=1, col=column,
            )  # fmt: skip
            figure.add_scatter(
                x=values, y=[row[f"{kind}_flops"] * scale for row in part], mode="lines",
                line={"color": color, "dash": "dash", "width": 1}, showlegend=False,
                row=1, col=column,
            )  # fmt: skip
        figure.update_xaxes(title=title, type="log", tickvals=values, row=1, col=column)
        figure.update_yaxes(type="log", dtick=math.log10(2), row=1, col=column)
    figure.update_yaxes(title="milliseconds", row=1, col=1)
    figure.update_layout(
        template="simple_white", width=1200, height=360, margin={"l": 60, "r": 10, "t": 20, "b": 60}
    )
    return figure


def save_plots(figures: dict[str, go.Figure]) -> None:
    """Draw figures in a browser and keep them as SVG on a white ground."""
    with sync_playwright() as playwright:
        path = os.environ.get("BUDGETFORMER_BROWSER")
        browser = playwright.chromium.launch(executable_path=path)
        page = browser.new_page()
        page.set_content("<div id='plot'></div>")
        page.add_script_tag(content=get_plotlyjs())
        for name, figure in figures.items():
            address = page.evaluate(
                "async (f) => Plotly.toImage(await Plotly.newPlot('plot', f.data, f.layout),"
                " {format: 'svg', width: f.layout.width, height: f.layout.height})",
                json.loads(figure.to_json()),
            )
            svg = unquote(address.split(",", 1)[1])
            (DOCS / name).write_text(svg + "\n", encoding="utf-8")
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
