"""The README says what is so: its table, its library example, its commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from budgetformer.cli import COMMANDS
from budgetformer.paper import REPORTED

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_holds_the_metrics_of_every_shipped_model() -> None:
    for path in ROOT.glob("checkpoints/*/metrics.json"):
        test = json.loads(path.read_text(encoding="utf-8"))["test"]
        (row,) = re.findall(rf"^\| \[{path.parent.name}\]\(.*$", README, re.MULTILINE)
        assert f"| {test['accuracy']:.4f} | {test['mean_budget']:.3f} |" in row
        assert f"| {test['executed_heads_frac']:.3f} |" in row


def test_cards_hold_the_metrics_and_the_training_command() -> None:
    for path in ROOT.glob("checkpoints/*/metrics.json"):
        metrics = json.loads(path.read_text(encoding="utf-8"))
        card = (path.parent / "README.md").read_text(encoding="utf-8")
        assert (
            f"{metrics['validation']['accuracy']:.4f} | {metrics['test']['accuracy']:.4f}" in card
        )
        assert f"budgetformer train --data {metrics['training']['data']}" in card


def test_the_tables_are_those_that_make_results_writes() -> None:
    subprocess.run([sys.executable, "scripts/results.py", "--check"], cwd=ROOT, check=True)


def test_the_studies_are_those_that_were_measured() -> None:
    subprocess.run([sys.executable, "benchmarks/report.py", "--check"], cwd=ROOT, check=True)


def test_what_it_says_of_adaptivity_was_measured() -> None:
    paths = list(ROOT.glob("checkpoints/*/adaptivity.json"))
    assert {path.parent.name for path in paths} >= {"imdb", "mixed", "known-need"}
    for path in paths:
        found = json.loads(path.read_text(encoding="utf-8"))
        (row,) = re.findall(rf"^\| {path.parent.name} \|.*$", README, re.MULTILINE)
        assert f"| {found['difficulty']['own']['auroc_error']['value']:.3f} |" in row
        for rival in ("shuffled", "fixed"):
            pays = found["pays"][f"adaptive_minus_{rival}"]
            value, low, high = (
                f"{100 * pays[name]:+.1f}".replace("-", "−") for name in ("value", "low", "high")
            )
            assert f"| {value} [{low}, {high}] |" in row


def test_the_paper_stands_beside_every_model_of_its_data() -> None:
    for paper in REPORTED:
        models = [name for name in paper.data if (ROOT / "checkpoints" / name).is_dir()]
        rows = re.findall(rf"^\| {paper.name} \|.*$", README, re.MULTILINE)
        assert len(rows) == len(models)
        for row in rows:
            assert f"| {paper.accuracy:.4f} | {paper.transformer_accuracy:.4f} |" in row


def test_what_it_says_of_known_need_was_measured() -> None:
    path = ROOT / "checkpoints" / "known-need" / "adaptivity.json"
    found, words = json.loads(path.read_text(encoding="utf-8")), " ".join(README.split())
    assert f"ρ(s, need) = {found['need']['spearman_budget_need']['value']:.3f}" in words
    for level in ("1", "5"):
        assert f"{100 * found['need']['executed_heads_frac'][level]:.1f} %" in words
    with_five, own = found["need"]["accuracy_at_fixed_k"]["5"]["5"], found["need"]["accuracy"]["5"]
    assert f"right on {100 * with_five:.0f} % of the second" in words
    assert f"wants on {100 * own:.0f} %" in words
    assert f"{100 * found['pays']['adaptive_minus_fixed']['value']:.1f} points over" in words


def test_the_library_examples_run() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    code += "\nassert [layer.k for layer in one_head.layers] == [1, 1]"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("positive ")


def test_every_command_of_the_readme_exists() -> None:
    commands = set(re.findall(r"python -m budgetformer (\w+)", README))
    usage = subprocess.run(
        [sys.executable, "-m", "budgetformer", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert commands == set(COMMANDS)
    assert all(re.search(rf"^ +{command}\b", usage, re.MULTILINE) for command in commands)
