"""The Compare page shows two runs of the library and their difference."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.conftest import HOSTILE, ROOT

ONE = "A wonderful film. I loved every minute."
TWO = "A dull story, but the music is lovely and I didn't mind the ending."


def open_compare(**query: str) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    for key, value in query.items():
        at.query_params[f"compare_{key}"] = value
    return at.switch_page("../pages/compare.py").run()


def sent(at: AppTest) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


def seen(at: AppTest) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", sent(at)))


def rows(at: AppTest) -> dict[str, list[str]]:
    """Every table row of the page by its first cell."""
    found = re.findall(r"<tr[^>]*>(<td>.*?)</tr>", sent(at))
    cells = [[html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in found]
    return {row[0]: row[1:] for row in cells}


def figure(at: AppTest, key: str) -> dict[str, Any]:
    chart = next(c for c in at.get("plotly_chart") if f"-compare_{key}" in c.proto.id)
    assert chart.proto.alt
    return json.loads(chart.proto.spec)


def run(text: str, folder: Path = ROOT / "checkpoints" / "imdb", pair: str | None = None) -> Any:
    from budgetformer import Checkpoint, predict

    return predict(Checkpoint.from_pretrained(folder), text, pair)


def number(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def test_the_first_visit_shows_a_comparison() -> None:
    at = open_compare()
    assert not at.exception
    assert "answer" in seen(at)
    assert dict(at.query_params) == {}


def test_two_texts_under_one_model_are_the_librarys_runs() -> None:
    from budgetformer import Checkpoint
    from budgetformer.comparison import layer_differences
    from budgetformer.cost import flops

    at = open_compare(text=ONE, text_b=TWO)
    assert not at.exception
    a, b = run(ONE), run(TWO)
    shown = rows(at)
    change = b.mean_budget - a.mean_budget
    assert shown["Mean budget s"] == [
        f"{a.mean_budget:.3f}",
        f"{b.mean_budget:.3f}",
        number(change, 3),
    ]
    assert shown["Heads run"][2] == number(b.executed_heads - a.executed_heads, 0)
    assert shown["Tokens"][:2] == [str(len(a.encoding.ids)), str(len(b.encoding.ids))]
    for label in a.probabilities:
        points = 100 * (b.probabilities[label] - a.probabilities[label])
        assert shown[label][2] == f"{number(points, 1)} points"
    config = Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb").config
    cost = [flops(config, len(t.encoding.ids), [x.k for x in t.layers]).model for t in (a, b)]
    assert shown["Whole model"][2] == f"{number(100 * (cost[1] / cost[0] - 1), 1)}%"
    assert all(cell.endswith("ms") for cell in shown["Time"])
    assert "Time: measured here" in seen(at)
    for i, difference in enumerate(layer_differences(a, b)):
        assert shown[str(i + 1)] == [
            f"{a.layers[i].budget:.3f}",
            f"{b.layers[i].budget:.3f}",
            number(difference.budget_change, 3),
            str(a.layers[i].k),
            str(b.layers[i].k),
            number(difference.k_change, 0),
            f"{difference.overlap:.0%}",
        ]
    first, second = figure(at, "budgets")["data"]
    assert first["x"] == pytest.approx([layer.budget for layer in a.layers])
    assert second["x"] == pytest.approx([layer.budget for layer in b.layers])
    filled = {trace["name"]: trace.get("customdata") for trace in figure(at, "heads")["data"]}
    for name, trace in (("A", a), ("B", b)):
        assert filled[name] == [
            f"layer {i}, head {head + 1}"
            for i, layer in enumerate(trace.layers, 1)
            for head in layer.heads
        ]


def test_words_of_both_sides_speak_about_as_answer() -> None:
    from budgetformer import Checkpoint
    from budgetformer.attribution import integrated_gradients
    from budgetformer.attribution_targets import Target

    at = open_compare(text=ONE, text_b=TWO)
    model = Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb")
    a, b = run(ONE), run(TWO)
    target = Target.logit(a.label)
    expected = [
        *integrated_gradients(model, a, target).word_values,
        *integrated_gradients(model, b, target).word_values,
    ]
    titles = re.findall(r'class="bf-word[^>]*title="([^"]+)"', sent(at))
    values = [float(title.replace("−", "-")) for title in titles]
    assert values == pytest.approx(expected, abs=6e-4)


def test_a_text_with_itself_differs_in_nothing() -> None:
    at = open_compare(text=TWO, text_b=TWO)
    assert not at.exception
    assert "The same answer" in seen(at)
    shown = rows(at)
    assert shown["Mean budget s"][2] == "+0.000"
    assert {shown[str(layer)][6] for layer in (1, 2)} == {"100%"}


def test_a_model_with_itself_differs_in_nothing() -> None:
    at = open_compare(by="models", text=TWO, model="imdb", model_b="imdb")
    assert not at.exception
    assert rows(at)["Heads run"][2] == "+0"


def test_dense_against_routed_has_no_budget_to_compare(models: Path) -> None:
    at = open_compare(by="models", text=ONE, model="dense", model_b="imdb")
    assert not at.exception
    shown = rows(at)
    assert shown["Mean budget s"] == ["none", f"{run(ONE).mean_budget:.3f}", "none"]
    assert "runs every head" in seen(at)
    assert "A has 3 layers and B 2: only the first 2" in seen(at)
    assert "A has 4 heads a layer and B 8" in seen(at)
    assert shown["1"][6] == "none"


def test_models_of_other_classes_compare_what_is_comparable(models: Path) -> None:
    at = open_compare(by="models", text=ONE, model="imdb", model_b="<b>odd $1 $2")
    assert not at.exception
    assert "Only A knows these classes, so they are left out: negative, positive." in seen(at)
    assert "Only B knows these classes" in seen(at)
    assert "<b>odd" not in sent(at) and "<i>" not in sent(at)


def test_a_pair_model_against_one_of_single_texts(models: Path) -> None:
    at = open_compare(by="models", text=ONE, text_pair="A film.", model="pair", model_b="imdb")
    assert not at.exception
    assert "B reads a single text" in seen(at)
    a, b = run(ONE, models / "pair", "A film."), run(ONE)
    assert rows(at)["Tokens"][:2] == [str(len(a.encoding.ids)), str(len(b.encoding.ids))]


def test_two_pairs_under_one_model(models: Path) -> None:
    at = open_compare(
        model="pair", text=ONE, text_pair="A film.", text_b=TWO, text_b_pair="A story."
    )
    assert not at.exception
    b = run(TWO, models / "pair", "A story.")
    assert rows(at)["Mean budget s"][1] == f"{b.mean_budget:.3f}"


@pytest.mark.parametrize("text", [" ", "\u200b"])
def test_a_side_without_a_text_is_asked_for_one(text: str) -> None:
    at = open_compare(text=ONE)
    at.text_area("compare_text_b").set_value(text).run()
    assert not at.exception
    assert not at.get("plotly_chart")
    assert at.info or any("nothing to read" in element.value for element in at.text)


def test_a_damaged_or_missing_model_is_reported(models: Path) -> None:
    at = open_compare(by="models", text=ONE, model="cut off", model_b="imdb")
    assert not at.exception
    assert any("is damaged" in element.value for element in at.text)
    at.selectbox("compare_model").set_value("imdb").run()
    assert "The same answer" in seen(at)
    at = open_compare(by="models", text=ONE, model="imdb", model_b="gone", way="x")
    assert not at.exception
    assert any("gone; showing" in element.value for element in at.text)


def test_the_dense_twin_is_the_first_choice_for_b(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app import loaders

    for name, source in (("imdb", "imdb"), ("imdb-dense", "dense")):
        shutil.copytree(models / source, tmp_path / name)
    monkeypatch.setattr(loaders, "CHECKPOINTS", tmp_path)
    at = open_compare(by="models", text=ONE)
    assert at.selectbox("compare_model_b").value == "imdb-dense"
    assert "compare_model_b" not in at.query_params


def test_everything_that_differs_from_the_default_is_in_the_address() -> None:
    at = open_compare()
    at.text_area("compare_text_b").set_value(TWO).run()
    at.button_group("compare_by").set_value("models").run()
    assert dict(at.query_params) == {"compare_by": ["models"], "compare_text_b": [TWO]} or {
        key: value if isinstance(value, str) else value[0]
        for key, value in dict(at.query_params).items()
    } == {"compare_by": "models", "compare_text_b": TWO}


def test_hostile_text_is_only_shown() -> None:
    at = open_compare(text=HOSTILE, text_b=HOSTILE)
    assert not at.exception
    for tag in ("<img", "<iframe", "<script", "<!--"):
        assert tag not in sent(at)
    written = " ".join(e.value for e in [*at.markdown, *at.caption, *at.info])
    assert "onerror" not in written and "$5" not in written


@pytest.mark.parametrize(("side", "text"), [("a", ONE), ("b", TWO)])
def test_a_side_opens_in_explore(side: str, text: str) -> None:
    at = open_compare(text=ONE, text_b=TWO)
    at.button(f"compare_open_{side}").click().run()
    assert not at.exception
    assert at.title[0].value == "Explore"
    assert at.text_area("explore_text").value == text


def test_a_wording_from_explore_is_compared_with_the_text() -> None:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    at.query_params["explore_part"], at.query_params["explore_text"] = "why", TWO
    at.switch_page("../pages/explore.py").run()
    at.button("explore_why_edits").click().run()
    at.session_state["explore_why_edit_table"] = {"selection": {"rows": [0], "columns": []}}
    at.run()
    at.button("explore_why_edit_compare").click().run()
    assert not at.exception
    assert at.title[0].value == "Compare"
    assert at.text_area("compare_text").value == TWO
    assert at.text_area("compare_text_b").value != TWO


def test_a_fault_of_ours_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.components import compare

    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(compare, "what_differs", fail)
    at = open_compare()
    assert not at.exception
    assert any("should not have" in element.value for element in at.text)
    assert "secret" not in seen(at)
