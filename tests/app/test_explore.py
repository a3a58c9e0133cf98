"""The Explore page shows what the library says, for good input and bad."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from budgetformer.known_need import ANIMALS, NUMBERS, need
from tests.app.explore import (
    MODEL_KEY,
    PAIR_KEY,
    PART_KEY,
    TEXT,
    TEXT_KEY,
    assert_no_result,
    assert_result,
    bodies,
    open_page,
    plain,
    predict,
    seen,
)
from tests.conftest import HOSTILE, ROOT


def test_the_first_visit_shows_a_result() -> None:
    at = open_page()
    assert not at.exception
    assert at.title[0].value == "Explore"
    assert len(at.text_area(TEXT_KEY).value) > 20
    assert_result(at)


def test_class_probabilities_are_the_models() -> None:
    _, trace = predict(TEXT)
    at = open_page(TEXT)
    for label, p in trace.probabilities.items():
        shown = "> 99.9%" if p >= 0.9995 else "< 0.1%" if p < 0.0005 else f"{100 * p:.1f}%"
        assert f"{label}{shown}" in seen(at)
    assert f'<div class="bf-big">{trace.label}</div>' in bodies(at)


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
    at = open_page(typed, **{PART_KEY: "why"})
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


def test_every_example_gives_a_result_and_says_what_to_look_for() -> None:
    from app.components.examples import EXAMPLES

    at = open_page()
    names = [e.name for e in EXAMPLES if not e.text_pair and not e.data]
    assert len(names) == 10
    for example in EXAMPLES[:10]:
        at.button_group("explore_example").set_value(example.name).run()
        assert not at.exception
        assert at.text_area(TEXT_KEY).value == example.text
        assert any(example.look_for in c.value for c in at.caption)
        assert_result(at)


def test_a_model_with_a_rule_is_shown_texts_that_follow_it() -> None:
    from app.components.examples import EXAMPLES

    at = open_page(model="known-need")
    own = [example for example in EXAMPLES if example.data == "known-need"]
    assert at.button_group("explore_example").options == [example.name for example in own]
    for example in own:
        words = example.text.split()
        # The rule, read off as a person would: so many words after a number word is an animal.
        claims = {words[i + NUMBERS.index(w) + 1] for i, w in enumerate(words) if w in NUMBERS}
        at.button_group("explore_example").set_value(example.name).run()
        assert f"Answer of known-need{str(claims <= set(ANIMALS)).lower()}" in seen(at)
        needs_five = example.name.startswith("Five")
        assert need(example.text) == (5 if needs_five else 1)
        assert ("7 of 8" if needs_five else "1 of 8") in seen(at)


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
    assert plain(at) == ""  # nothing unknown, nothing cut
    (strip,) = [html for html in at.get("html") if 'class="bf-tokens' in html.proto.body]
    assert strip.proto.body.count("[CLS]") == 1  # the model's own: the typed one is three pieces


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
    at = open_page(HOSTILE + " ಠ", **{PART_KEY: "why"})
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
    assert "no router" in at.info[0].value
    assert "12 of 12" in seen(at) and "Mean budget" not in seen(at)
    assert "Whole modelThe same" in seen(at)
    assert_result(at)


def test_a_pair_model_reads_two_texts(models: Path) -> None:
    first, second = "A man sleeps.", "A man runs."
    _, trace = predict(first, second, models / "pair")
    at = open_page(first, "pair", **{PAIR_KEY: second})
    assert not at.exception
    for label, p in trace.probabilities.items():
        assert f"{label}{100 * p:.1f}%" in seen(at)
    at.text_area(PAIR_KEY).set_value(" ").run()
    assert_no_result(at)
    assert "both texts" in at.info[0].value
    at.button_group("explore_example").set_value("Contradicts").run()
    assert at.text_area(PAIR_KEY).value == "The two boys are asleep in bed."
    assert_result(at)


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
    assert_result(at)
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
    assert_result(at)


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
