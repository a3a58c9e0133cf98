"""The Why section shows what the library says about words, heads, budgets and other wordings."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.conftest import HOSTILE, ROOT

TEXT = "A dull story, but the music is lovely and I didn't mind the ending."
WHY = "explore_why"


def open_why(text: str = TEXT, model: str = "imdb", **query: str) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    asked = {"explore_part": "why", "explore_text": text, "explore_model": model, **query}
    for key, value in asked.items():
        at.query_params[key] = value
    return at.switch_page("../pages/explore.py").run()


def seen(at: AppTest) -> str:
    bodies = "\n".join(element.proto.body for element in at.get("html"))
    return html.unescape(re.sub(r"<[^>]+>", "", bodies))


def number(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def figure(at: AppTest, key: str) -> tuple[dict[str, Any], str]:
    chart = next(c for c in at.get("plotly_chart") if f"-{WHY}_{key}" in c.proto.id)
    return json.loads(chart.proto.spec), chart.proto.alt


def library(
    text: str = TEXT, folder: Path = ROOT / "checkpoints" / "imdb", pair: str | None = None
) -> tuple[Any, Any]:
    from budgetformer import Checkpoint, predict

    model = Checkpoint.from_pretrained(folder)
    return model, predict(model, text, pair)


def shown_values(at: AppTest) -> list[float]:
    regions = [e.proto.body for e in at.get("html") if "contributions" in e.proto.body]
    titles = re.findall(r'class="bf-word[^>]*title="([^"]+)"', "".join(regions))
    return [float(title.replace("−", "-")) for title in titles]


def test_the_answer_is_explained_first() -> None:
    from budgetformer.attribution import BASELINE, HELD, integrated_gradients

    expected = integrated_gradients(*library())
    at = open_why()
    assert not at.exception
    assert shown_values(at) == pytest.approx(list(expected.word_values), abs=6e-4)
    for part in (
        BASELINE,
        HELD.capitalize(),
        f"{abs(expected.completeness_error):.1e}; 0 would be exact",
    ):
        assert part in seen(at)


@pytest.mark.parametrize(
    ("query", "kind", "arguments"),
    [
        ({"target": "class", "class": "negative"}, "logit", ("negative",)),
        ({"target": "contrast", "class": "positive"}, "contrast", ("positive", "negative")),
        ({"target": "budget"}, "mean_budget", ()),
        ({"target": "budget", "budget_layer": "2"}, "budget", (1,)),
        ({"target": "score", "score_layer": "2", "score_head": "3"}, "score", (1, 2)),
    ],
)
def test_every_target_can_be_picked_and_linked(
    query: dict[str, str], kind: str, arguments: tuple[Any, ...]
) -> None:
    from budgetformer.attribution import integrated_gradients
    from budgetformer.attribution_targets import Target

    target = getattr(Target, kind)(*arguments)
    expected = integrated_gradients(*library(), target)
    at = open_why(**{f"{WHY}_{key}": value for key, value in query.items()})
    assert not at.exception
    assert shown_values(at) == pytest.approx(list(expected.word_values), abs=6e-4)
    digits = 4 if "budget" in kind else 2
    assert f"by {number(expected.total, digits)}" in seen(at)


def test_a_target_that_is_none_of_the_models_is_dropped() -> None:
    at = open_why(**{f"{WHY}_target": "mood", f"{WHY}_class": "<b>", f"{WHY}_method": "magic"})
    assert not at.exception
    assert "speaks for" in seen(at)


def test_gradient_x_input_says_that_it_does_not_add_up() -> None:
    from budgetformer.attribution import ZERO_BASELINE, gradient_x_input

    expected = gradient_x_input(*library())
    at = open_why(**{f"{WHY}_method": "gradient"})
    assert shown_values(at) == pytest.approx(list(expected.word_values), abs=6e-4)
    assert f"miss it by {number(expected.completeness_error, 2)}" in seen(at)
    assert ZERO_BASELINE in seen(at)


def test_occlusion_waits_until_it_is_asked_for() -> None:
    from budgetformer.attribution import occlusion

    at = open_why(**{f"{WHY}_method": "occlusion"})
    assert not shown_values(at)
    at.button(f"{WHY}_occlusion").click().run()
    assert not at.exception
    assert shown_values(at) == pytest.approx(list(occlusion(*library()).word_values), abs=6e-4)
    at.text_area("explore_text").set_value("another text").run()
    assert not shown_values(at)  # the answer to another question is not shown


def test_heads_are_those_that_ran_with_the_librarys_values() -> None:
    from budgetformer.attribution_heads import head_contributions

    model, trace = library()
    expected = head_contributions(model, trace)
    spec, alt = figure(open_why(**{f"{WHY}_method": "heads"}), "head_bars")
    (bars,) = spec["data"]
    names = {
        f"Layer {layer + 1}, head {head + 1}": expected.head_values[layer][head]
        for layer, decided in enumerate(trace.layers)
        for head in decided.heads
    }
    assert dict(zip(bars["y"], bars["x"], strict=True)) == pytest.approx(names)
    assert all(name in alt for name in names)


def test_no_head_has_a_say_in_the_first_layers_budget() -> None:
    at = open_why(
        **{f"{WHY}_method": "heads", f"{WHY}_target": "budget", f"{WHY}_budget_layer": "1"}
    )
    assert not at.exception
    assert any("No head has a say" in info.value for info in at.info)


def test_faithfulness_is_the_librarys() -> None:
    from budgetformer.attribution import integrated_gradients
    from budgetformer.faithfulness import faithfulness

    model, trace = library()
    expected = faithfulness(model, trace, integrated_gradients(model, trace))
    at = open_why()
    assert "comprehensiveness and" not in seen(at)
    at.button(f"{WHY}_faithfulness").click().run()
    assert not at.exception
    assert f"{number(expected.comprehensiveness_gain, 2)} in comprehensiveness" in seen(at)
    assert f"{number(expected.sufficiency_gain, 2)} in sufficiency" in seen(at)
    spec, alt = figure(at, "sufficiency")
    random, own = spec["data"]
    assert own["x"] == pytest.approx([step.sufficiency for step in expected.steps])
    assert len(random["x"]) == 10 * len(expected.steps)
    assert f"{expected.steps[0].sufficiency:+.3f}" in alt


def test_words_stand_where_class_and_budget_put_them() -> None:
    from budgetformer.attribution import class_and_budget

    expected = class_and_budget(*library()).words
    spec, alt = figure(open_why(), "word_plane")
    (points,) = spec["data"]
    assert points["x"] == pytest.approx([word.class_value for word in expected])
    assert points["y"] == pytest.approx([word.budget_value for word in expected])
    assert [html.unescape(w) for w in points["customdata"]] == [word.text for word in expected]
    assert f"{len(expected)} words" in alt


def ask_for_edits(at: AppTest) -> list[Any]:
    from budgetformer.counterfactuals import counterfactuals

    at.button(f"{WHY}_edits").click().run()
    assert not at.exception
    return counterfactuals(*library()).by_budget()


def test_small_changes_are_the_librarys_largest_first() -> None:
    at = open_why()
    rows = ask_for_edits(at)
    (frame,) = [frame.value for frame in at.dataframe]
    assert list(frame["Δs"]) == pytest.approx([row.budget_change for row in rows])
    assert list(frame["what"]) == [row.detail for row in rows]
    assert list(frame["Δk"]) == [row.executed_heads_change for row in rows]
    assert [label != "same" for label in frame["label"]] == [row.label_changed for row in rows]
    for text, row in zip(frame["head flips"], rows, strict=True):
        assert len(re.findall(r"[+−]\d", text)) == row.flips


def test_a_change_can_become_the_text() -> None:
    at = open_why()
    rows = ask_for_edits(at)
    at.session_state[f"{WHY}_edit_table"] = {"selection": {"rows": [1], "columns": []}}
    at.run()
    assert rows[1].texts[0] == html.unescape(
        re.sub(
            r"<del.*?</del>|<[^>]+>",
            "",
            next(e.proto.body for e in at.get("html") if "other wording" in e.proto.body),
        )
    )
    at.button(f"{WHY}_edit_use").click().run()
    assert not at.exception
    assert at.text_area("explore_text").value == rows[1].texts[0]
    assert not at.dataframe


def test_searches_find_what_the_library_finds() -> None:
    from budgetformer.rewording import cheapest_wording, dearest_wording

    at = open_why()
    for name, search in (("cheapest", cheapest_wording), ("dearest", dearest_wording)):
        at.button(f"{WHY}_{name}").click().run()
        assert not at.exception
        found = search(*library())
        assert f"{found.end.executed_heads} heads" in seen(at)
        assert f"Mean budget s {found.end.mean_budget:.3f} instead" in seen(at)
        assert f"Measured on {found.n_tried:,} wordings" in seen(at)


def test_a_dense_model_has_classes_to_explain_and_no_budget(models: Path) -> None:
    from budgetformer.attribution import integrated_gradients

    expected = integrated_gradients(*library(folder=models / "dense"))
    at = open_why(model="dense", **{f"{WHY}_target": "budget"})
    assert not at.exception
    assert shown_values(at) == pytest.approx(list(expected.word_values), abs=6e-4)
    assert any("no budget to explain" in info.value for info in at.info)
    assert at.button_group(f"{WHY}_target").options == ["A class", "Two classes"]
    assert not at.get("plotly_chart")


def test_the_second_text_of_a_pair_can_be_changed(models: Path) -> None:
    from budgetformer.counterfactuals import counterfactuals

    first, second = "A man sleeps outside.", "A man was running."
    at = open_why(first, "pair", explore_text_pair=second)
    at.button_group(f"{WHY}_segment").set_value("Second text").run()
    at.button(f"{WHY}_edits").click().run()
    assert not at.exception
    rows = counterfactuals(*library(first, models / "pair", second), segment=1).by_budget()
    assert list(at.dataframe[0].value["what"]) == [row.detail for row in rows]
    at.session_state[f"{WHY}_edit_table"] = {"selection": {"rows": [0], "columns": []}}
    at.run()
    at.button(f"{WHY}_edit_use").click().run()
    assert at.text_area("explore_text").value == first
    assert at.text_area("explore_text_pair").value == rows[0].texts[1]


def test_hostile_text_and_labels_are_only_shown(models: Path) -> None:
    at = open_why(HOSTILE, "<b>odd $1 $2", **{f"{WHY}_target": "contrast"})
    for name in ("faithfulness", "edits", "cheapest", "dearest"):
        at.button(f"{WHY}_{name}").click().run()
    at.session_state[f"{WHY}_edit_table"] = {"selection": {"rows": [0], "columns": []}}
    at.run()
    assert not at.exception
    sent = "\n".join(e.proto.body for e in at.get("html"))
    for tag in ("<img", "<iframe", "<script", "<!--", "<i>class"):
        assert tag not in sent
    markdown = [*at.markdown, *at.caption, *at.info, *at.subheader]
    written = " ".join(e.value for e in markdown) + " ".join(b.label for b in at.button)
    assert "onerror" not in written and "$5" not in written and "$x$" not in written


def test_a_fault_of_ours_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.components import why_plane

    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(why_plane, "class_against_budget", fail)
    at = open_why()
    assert not at.exception
    assert "should not have" in "\n".join(text.value for text in at.text)
    assert "secret" not in seen(at)
