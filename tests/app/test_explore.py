"""The Explore page shows what the library says, for good input and bad."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.conftest import HOSTILE, ROOT

TEXT = "A dull story, but the music is lovely and I didn't mind the ending."
TEXT_KEY, PAIR_KEY, MODEL_KEY = "explore_text", "explore_text_pair", "explore_model"


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """AppTest's limit is for a page; the first import of these takes longer on a busy machine."""
    import captum.attr  # noqa: F401

    import budgetformer  # noqa: F401


@pytest.fixture
def models(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the app find the models of every kind."""
    from app import loaders

    monkeypatch.setattr(loaders, "CHECKPOINTS", model_folder)
    return model_folder


def open_page(text: str | None = None, model: str | None = None, **query: str) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=30)
    for key, value in {TEXT_KEY: text, MODEL_KEY: model, **query}.items():
        if value is not None:
            at.query_params[key] = value
    return at.switch_page("../pages/explore.py").run()


def bodies(at: AppTest) -> str:
    """All HTML of the page, as sent."""
    return "\n".join(element.proto.body for element in at.get("html"))


def seen(at: AppTest) -> str:
    """What a reader sees of that HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", bodies(at)))


def plain(at: AppTest) -> str:
    return "\n".join(element.value for element in at.text)


def figure(at: AppTest, key: str) -> tuple[dict[str, Any], str]:
    chart = next(c for c in at.get("plotly_chart") if f"-{key}" in c.proto.id)
    return json.loads(chart.proto.spec), chart.proto.alt


def predict(text: str, pair: str | None = None, model: Path = ROOT / "checkpoints" / "imdb") -> Any:
    from budgetformer import Checkpoint
    from budgetformer import predict as library

    checkpoint = Checkpoint.from_pretrained(model)
    return checkpoint.config, library(checkpoint, text, pair)


def assert_no_result(at: AppTest) -> None:
    assert not at.exception
    assert not at.get("plotly_chart")
    assert "Completeness error" not in seen(at)


def test_the_first_visit_shows_a_result() -> None:
    at = open_page()
    assert not at.exception
    assert at.title[0].value == "Explore"
    assert len(at.text_area(TEXT_KEY).value) > 20
    assert "Completeness error" in seen(at)


def test_class_probabilities_are_the_models() -> None:
    _, trace = predict(TEXT)
    at = open_page(TEXT)
    for label, p in trace.probabilities.items():
        shown = "> 99.9%" if p >= 0.9995 else "< 0.1%" if p < 0.0005 else f"{100 * p:.1f}%"
        assert f"{label}{shown}" in seen(at)
    assert f'<div class="bf-big">{trace.label}</div>' in bodies(at)


def test_budgets_and_the_whole_heads_they_become() -> None:
    config, trace = predict(TEXT)
    at = open_page(TEXT)
    spec, alt = figure(at, "explore_budgets")
    budgets = [layer.budget for layer in trace.layers]
    k = [max(1, math.floor(s * config.n_heads)) for s in budgets]
    bars = {trace["name"]: trace for trace in spec["data"]}
    assert bars["s·H"]["x"] == pytest.approx([s * config.n_heads for s in budgets])
    assert bars["executed heads k"]["x"] == k
    assert spec["layout"]["xaxis"]["tickvals"] == list(range(config.n_heads + 1))
    assert all(f"budget {s:.3f}" in alt for s in budgets)
    assert f"{sum(k)} of {config.n_layers * config.n_heads}" in seen(at)
    mean, share = sum(budgets) / len(budgets), sum(k) / (len(k) * config.n_heads)
    assert re.search(rf"Mean budget[^%]*{100 * mean:.1f}%", seen(at))
    assert re.search(rf"Executed heads[^%]*{100 * share:.1f}%", seen(at))


def test_the_framed_heads_are_the_most_probable_ones() -> None:
    _, trace = predict(TEXT)
    spec, alt = figure(open_page(TEXT), "explore_heads")
    (grid,) = spec["data"]
    for row, layer in enumerate(trace.layers):
        p = layer.head_probabilities
        assert grid["z"][row] == pytest.approx(list(p))
        best = sorted(sorted(range(len(p)), key=lambda head: -p[head])[: layer.k])
        frames = [s for s in spec["layout"]["shapes"] if s["y0"] < row < s["y1"]]
        assert [round((s["x0"] + s["x1"]) / 2) for s in frames] == best
        assert ["✓" in cell for cell in grid["text"][row]] == [h in best for h in range(len(p))]
        numbers = ", ".join(f"head {head + 1} ({p[head]:.0%})" for head in best)
        assert f"layer {row + 1} runs {numbers}" in alt


def test_compute_is_the_closed_form_against_the_dense_twin() -> None:
    config, trace = predict(TEXT)
    t, d, dh = len(trace.encoding.ids), config.d_model, config.d_model // config.n_heads
    k, full = sum(layer.k for layer in trace.layers), config.n_layers * config.n_heads
    fixed = config.n_layers * 4 * t * d * config.d_ff + 2 * d * len(config.labels)
    router = 2 * config.n_layers * (d * config.d_router + config.d_router + d * config.n_heads)
    head = 4 * t * t * dh + 8 * t * d * dh
    saved = 1 - (k * head + fixed + router) / (full * head + fixed)
    text = seen(open_page(TEXT))
    assert f"Attention core{100 * (1 - k / full):.1f}% less" in text
    assert f"Whole model{100 * saved:.1f}% less" in text
    assert "Computed by formula" in text and "not measured" in text


def test_words_are_coloured_in_the_text_as_typed() -> None:
    from budgetformer import Checkpoint
    from budgetformer.attribution import integrated_gradients

    typed = "Don't  over-think it…\n\tJust (really) watch  it!"
    at = open_page(typed)
    (region,) = [e.proto.body for e in at.get("html") if "contributions" in e.proto.body]
    assert html.unescape(re.sub(r"<[^>]+>", "", region)) == typed
    words = re.findall(r'<span class="bf-word[^>]*title="([^"]+)">([^<]+)</span>', region)
    assert [html.unescape(word) for _, word in words][:3] == ["Don't", "over-think", "it"]
    checkpoint = Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb")
    _, trace = predict(typed)
    expected = integrated_gradients(checkpoint, trace).word_values
    shown = [float(value.replace("−", "-")) for value, _ in words]
    assert shown == pytest.approx(list(expected), abs=6e-4)
    for (value, _), span in zip(
        words, re.findall(r'<span class="bf-word[^>]*>', region), strict=True
    ):
        assert ("0, 114, 178" in span) == (not value.startswith("−"))


def test_tokens_special_ones_can_be_hidden() -> None:
    _, trace = predict(TEXT)
    at = open_page(TEXT)
    chips = r'<span class="bf-token[^>]*>([^<]+)'
    assert [html.unescape(c) for c in re.findall(chips, bodies(at))] == list(trace.encoding.tokens)
    assert f"**{len(trace.encoding.ids)} of " in " ".join(m.value for m in at.markdown)
    at.toggle("explore_show_special").set_value(False).run()
    left = [html.unescape(c) for c in re.findall(chips, bodies(at))]
    assert left == list(trace.encoding.tokens[1:-1])


def test_every_example_gives_a_result_and_says_what_to_look_for() -> None:
    from app.components.examples import EXAMPLES

    at = open_page()
    names = [e.name for e in EXAMPLES if not e.text_pair]
    assert len(names) == 10
    for example in EXAMPLES[:10]:
        at.button_group("explore_example").set_value(example.name).run()
        assert not at.exception
        assert at.text_area(TEXT_KEY).value == example.text
        assert any(example.look_for in c.value for c in at.caption)
        assert "Completeness error" in seen(at)


def test_typing_unmarks_the_example() -> None:
    at = open_page()
    assert at.session_state["explore_example"] == "Easy"
    at.text_area(TEXT_KEY).set_value("something else").run()
    assert at.session_state["explore_example"] is None


@pytest.mark.parametrize("text", ["", " ", " \n\t\u3000 "])
def test_nothing_typed_asks_for_a_text(text: str) -> None:
    at = open_page()
    at.text_area(TEXT_KEY).set_value(text).run()
    assert_no_result(at)
    assert "Type a text" in at.info[0].value


def test_invisible_text_is_refused_in_words() -> None:
    at = open_page("\u200b")
    assert_no_result(at)
    assert "nothing to read" in plain(at)


def test_a_text_of_punctuation_and_typed_special_tokens_is_read() -> None:
    at = open_page("I love [PAD] and [CLS] <unk> !?")
    assert not at.exception
    assert seen(at).count("[CLS]") == 2  # the model's own, and the text as typed
    assert "[PAD]" in seen(at)


def test_five_thousand_words_are_cut_with_a_notice() -> None:
    typed = " ".join(f"word{i}" for i in range(5000))
    config, trace = predict(typed)
    at = open_page()
    at.text_area(TEXT_KEY).set_value(typed).run()
    assert not at.exception
    cut = trace.encoding.cut[0]
    n_unread = len(typed[cut:].split())
    assert f"… {' '.join(typed[:cut].split()[-6:])}”" in plain(at)
    assert f"the {n_unread:,} words after that" in plain(at)
    assert f"**{config.max_len} of {config.max_len}** tokens" in " ".join(
        m.value for m in at.markdown
    )
    assert TEXT_KEY not in at.query_params  # a server refuses such a long address


def test_unknown_signs_are_counted_and_named() -> None:
    at = open_page("fine 👩‍👩‍👧 and 🎬")
    assert "2 words are unknown to this model: 👩‍👩‍👧, 🎬." in plain(at)
    assert bodies(at).count("<small>unknown</small>") == 2


def test_hostile_text_is_shown_and_not_obeyed() -> None:
    at = open_page(HOSTILE + " ಠ")
    assert not at.exception
    sent = bodies(at)
    for tag in ("<img", "<iframe", "<script", "<!--"):
        assert tag not in sent
    (region,) = [e.proto.body for e in at.get("html") if "contributions" in e.proto.body]
    assert html.unescape(re.sub(r"<[^>]+>", "", region)) == HOSTILE + " ಠ"
    written = " ".join(e.value for e in [*at.markdown, *at.caption, *at.info])
    assert "onerror" not in written and "$5" not in written


def test_hostile_labels_and_folder_names_are_text(models: Path) -> None:
    at = open_page(TEXT, "<b>odd $1 $2")
    assert not at.exception
    assert "<i>" not in bodies(at) and "<b>odd" not in bodies(at)
    assert "<i>class 0</i> **$x$**" in seen(at)
    assert "3 other classes" in seen(at)
    assert "$x$" not in " ".join(e.value for e in [*at.markdown, *at.caption])


def test_a_dense_model_says_that_it_has_no_router(models: Path) -> None:
    at = open_page(TEXT, "dense")
    assert not at.exception
    assert not at.get("plotly_chart")
    assert "no router" in at.info[0].value
    assert "12 of 12" in seen(at) and "Mean budget" not in seen(at)
    assert "Whole modelThe same" in seen(at)
    assert "Completeness error" in seen(at)


def test_a_pair_model_reads_two_texts(models: Path) -> None:
    first, second = "A man sleeps.", "A man runs."
    _, trace = predict(first, second, models / "pair")
    at = open_page(first, "pair", **{PAIR_KEY: second})
    assert not at.exception
    for label, p in trace.probabilities.items():
        assert f"{label}{100 * p:.1f}%" in seen(at)
    assert len([e for e in at.get("html") if "contributions" in e.proto.body]) == 2
    at.text_area(PAIR_KEY).set_value(" ").run()
    assert_no_result(at)
    assert "both texts" in at.info[0].value
    at.button_group("explore_example").set_value("Contradicts").run()
    assert at.text_area(PAIR_KEY).value == "The two boys are asleep in bed."
    assert "Completeness error" in seen(at)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("cut off", "is damaged"), ("not json", "not valid JSON"), ("half", "is missing")],
)
def test_a_damaged_model_is_reported_and_others_work(models: Path, name: str, reason: str) -> None:
    at = open_page(TEXT, name)
    assert_no_result(at)
    assert reason in plain(at)
    assert at.text_area(TEXT_KEY).value == TEXT
    at.selectbox(MODEL_KEY).set_value("imdb").run()
    assert not at.exception
    assert "Completeness error" in seen(at)
    assert at.text_area(TEXT_KEY).value == TEXT


def test_no_models_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from app import loaders

    monkeypatch.setattr(loaders, "CHECKPOINTS", tmp_path / "none")
    at = open_page(TEXT)
    assert_no_result(at)
    assert "checkpoints/" in plain(at)
    assert at.text_area(TEXT_KEY).value == TEXT


def test_a_link_to_a_model_that_is_gone_says_so() -> None:
    at = open_page(TEXT, "gone")
    assert "gone; showing imdb" in plain(at)
    assert at.selectbox(MODEL_KEY).value == "imdb"
    assert "Completeness error" in seen(at)


def test_a_model_that_was_replaced_is_read_again(models: Path) -> None:
    from budgetformer import Checkpoint

    assert "Decides between negative, positive" in seen(open_page(TEXT, "dense"))
    old = Checkpoint.from_pretrained(models / "dense")
    with_names = type(old.config)(**{**vars(old.config), "labels": ("down", "up")})
    config_file = models / "dense" / "config.json"
    before = config_file.read_text()
    config_file.write_text(json.dumps(vars(with_names)))
    try:
        assert "Decides between down, up" in seen(open_page(TEXT, "dense"))
    finally:
        config_file.write_text(before)


def test_the_address_holds_what_differs_from_the_default() -> None:
    at = open_page()
    assert dict(at.query_params) == {}
    at.text_area(TEXT_KEY).set_value("a link to this").run()
    assert at.query_params[TEXT_KEY] == "a link to this"
    at.text_area(TEXT_KEY).set_value("x " * 1500).run()
    assert TEXT_KEY not in at.query_params


def test_a_fault_of_ours_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.components import prediction

    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(prediction, "cards", fail)
    at = open_page(TEXT)
    assert not at.exception
    assert "should not have" in plain(at)
    assert "secret" not in plain(at) + bodies(at)
