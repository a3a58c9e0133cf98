"""The Examples page shows what the library computes of a scored set, shipped or people's own."""

from __future__ import annotations

import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from budgetformer.measures import everything
from budgetformer.records import ScoredSet, read_scored, write_scored
from budgetformer.relation import partial_rank_correlation, rank_correlation
from budgetformer.slices import QUADRANTS, Filter, figures, mask_of, quadrant_of
from tests.app.explore import numbers
from tests.conftest import HOSTILE, ROOT

MAP, CONFUSION, TABLE = "examples_map", "examples_confusion", "examples_table"


@pytest.fixture(scope="module")
def scored() -> ScoredSet:
    from app import loaders

    # The pages of all tests take it from memory then: reading the reviews takes seconds.
    return loaders.scored_set_with_texts(ROOT / "checkpoints" / "imdb" / "records.parquet")[0]


def open_examples(**query: str) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=120)
    for key, value in query.items():
        at.query_params[f"examples_{key}"] = value
    return at.switch_page("../pages/examples.py").run()


def bodies(at: AppTest) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


def seen(at: AppTest) -> str:
    """What a reader sees: HTML without its tags, and texts as they stand."""
    page = html.unescape(re.sub(r"<[^>]+>", " ", bodies(at)))
    return "\n".join([page, *(m.value for m in at.markdown), *(t.value for t in at.text)])


def rows(at: AppTest) -> dict[str, list[str]]:
    found = re.findall(r"<tr[^>]*>(<td>.*?)</tr>", bodies(at))
    cells = [[html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in found]
    return {row[0].strip(): row[1:] for row in cells}


def figure(at: AppTest, key: str) -> dict[str, Any]:
    chart = next(c for c in at.get("plotly_chart") if c.proto.id.endswith(f"-{key}"))
    assert chart.proto.alt
    return json.loads(chart.proto.spec)


def pick(at: AppTest, chart: str, *points: tuple[int, int]) -> AppTest:
    """Play a pick of (curve, point) on a chart."""
    at.session_state[chart] = {
        "selection": {"points": [{"curve_number": c, "point_index": i} for c, i in points]}
    }
    return at.run()


def shown_rows(at: AppTest) -> list[int]:
    return at.dataframe[0].value["row"].tolist()


def in_slice(at: AppTest) -> int:
    (said,) = re.findall(r"\*\*([\d,]+)\*\* of 2,500 examples are in", "\n".join(
        m.value for m in at.markdown
    ))  # fmt: skip
    return int(said.replace(",", ""))


def number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def test_the_verdict_is_the_librarys(scored: ScoredSet) -> None:
    at = open_examples()
    assert not at.exception and not at.warning
    table = rows(at)
    s, tokens = scored.records.mean_budgets, scored.records.n_tokens
    for label, name in (
        ("Loss of the model", "loss"), ("Margin", "margin"),
        ("Loss of the dense twin", "dense_loss"), ("Loss of a linear model", "linear_loss"),
    ):  # fmt: skip
        values = next(m for m in everything(scored) if m.name == name).values(scored)
        for cell, found in zip(
            table[label],
            (rank_correlation(s, values), partial_rank_correlation(s, values, tokens)),
            strict=True,
        ):
            assert found is not None
            low, high = number(found.low), number(found.high)
            assert cell == f"{number(found.value)} [{low}, {high}]"
    text = seen(at)
    assert "s rises strongly** with the model’s own loss" in text
    assert "Length is not the reason." in text
    pays = json.loads((ROOT / "checkpoints/imdb/adaptivity.json").read_text())["pays"]
    gain = pays["adaptive_minus_shuffled"]["value"]
    assert f"{100 * gain:+.1f} points".replace("-", "−") in text
    counts = np.bincount(quadrant_of(scored), minlength=4)
    assert f"Of {counts[0] + counts[1]:,} wrong answers, {counts[1]:,}" in text


def test_the_map_holds_every_example(scored: ScoredSet) -> None:
    at = open_examples(x="tokens", y="s2", colour="quadrant")
    spec = figure(at, MAP)
    traces = [trace for trace in spec["data"] if trace.get("mode") == "markers"]
    assert [trace["name"] for trace in traces] == list(QUADRANTS)
    quadrant = quadrant_of(scored)
    for q, trace in enumerate(traces):
        of = quadrant == q
        assert numbers(trace["x"]) == pytest.approx(scored.records.n_tokens[of])
        assert numbers(trace["y"]) == pytest.approx(scored.records.budgets[of, 1])
    assert dict(at.query_params) == {
        "examples_x": "tokens", "examples_y": "s2", "examples_colour": "quadrant",
    }  # fmt: skip
    at = open_examples(x="nonsense", y="", colour="<b>")
    assert not at.exception
    assert "logarithmic" in figure(at, MAP)["layout"]["xaxis"]["title"]["text"]


def test_a_lasso_makes_a_slice_and_clear_drops_it(scored: ScoredSet) -> None:
    at = open_examples()
    wrong = np.flatnonzero(~scored.records.correct)
    pick(at, MAP, (1, 0), (1, 1), (1, 7))
    assert not at.exception
    assert in_slice(at) == 3
    assert shown_rows(at) == [int(wrong[i]) + 1 for i in (0, 1, 7)]
    assert rows(at)["this slice: 3 picked"][:2] == ["3", "0.0% [0.0, 56.1]"]
    # The chart forgets its selection, and the slice stays.
    pick(at, MAP)
    assert in_slice(at) == 3
    at.button("examples_clear").click().run()
    assert in_slice(at) == 2500
    pick(at, MAP, (0, 4))
    assert in_slice(at) == 2500  # a click reads one example
    right = np.flatnonzero(scored.records.correct)
    assert f"Row {right[4] + 1:,}: right" in seen(at)
    assert at.query_params["examples_row"] == str(right[4] + 1)


def test_conditions_are_the_librarys(scored: ScoredSet) -> None:
    at = open_examples()
    at.button_group("examples_quadrants").set_value(["cheap-wrong"]).run()
    wanted = Filter(quadrants=("cheap-wrong",))
    assert in_slice(at) == mask_of(scored, wanted).sum()
    at.selectbox("examples_gold").select("positive").run()
    wanted = replace(wanted, gold="positive")
    assert in_slice(at) == mask_of(scored, wanted).sum()
    at.text_input("examples_search").set_value("GREAT").run()
    wanted = replace(wanted, search="great")
    mask = mask_of(scored, wanted)
    assert 0 < in_slice(at) == mask.sum()
    found = figures(scored, mask)
    assert found is not None
    row = rows(at)["this slice: cheap-wrong, gold positive, “GREAT”"]
    assert row[0] == str(found.n) and row[2].startswith(f"{found.budget.value:.3f} [")
    assert "against the rest" in rows(at)


def test_a_pattern_is_used_or_explained(scored: ScoredSet) -> None:
    at = open_examples()
    at.toggle("examples_regex").set_value(True).run()
    at.text_input("examples_search").set_value(r"^i (loved|hated) ").run()
    expected = [bool(re.search(r"^i (loved|hated) ", str(t), re.I)) for t in scored.texts or ()]
    assert in_slice(at) == sum(expected) > 0
    at.text_input("examples_search").set_value("(").run()
    assert not at.exception
    assert "the pattern '(' cannot be read" in seen(at)


def test_a_range_and_a_cell_of_the_confusion_matrix(scored: ScoredSet) -> None:
    at = open_examples()
    at.selectbox("examples_measure").select("tokens").run()
    at.slider("examples_range").set_range(100.0, 200.0).run()
    n = scored.records.n_tokens
    assert abs(in_slice(at) - ((n >= 100) & (n <= 200)).sum()) < 12  # the slider moves in steps
    at.button("examples_clear").click().run()
    pick(at, CONFUSION, (1, 1))  # gold 0, predicted 1
    mistaken = (scored.records.labels == 0) & (scored.predicted == 1)
    assert in_slice(at) == mistaken.sum()
    pick(at, CONFUSION)
    pick(at, CONFUSION, (1, 1))
    assert in_slice(at) == 2500


def test_slices_can_be_kept_and_let_go() -> None:
    at = open_examples()
    at.button_group("examples_quadrants").set_value(["dear-right"]).run()
    n = in_slice(at)
    at.text_input("examples_name").set_value("<b>mine $1$").run()
    at.button("examples_keep").click().run()
    at.button("examples_clear").click().run()
    assert rows(at)["<b>mine $1$"][0] == f"{n:,}"
    assert "<b>mine" not in bodies(at)
    at.button("examples_let_go").click().run()
    assert "<b>mine $1$" not in rows(at)


def test_the_table_sorts_steps_and_opens_explore(scored: ScoredSet) -> None:
    at = open_examples()
    at.selectbox("examples_sort").select("loss").run()
    at.toggle("examples_falling").set_value(True).run()
    order = np.argsort(-scored.records.losses, kind="stable")
    assert shown_rows(at)[:20] == (order[:20] + 1).tolist()
    at.button("examples_next").click().run()
    # What is read stays, whatever the order: row 1 is followed by the next in this order.
    place = int(np.flatnonzero(order == 0)[0])
    now = int(order[place + 1])
    assert f"Row {now + 1:,}: " in seen(at)
    at.button("examples_random").click().run()
    text = (scored.texts or ())[int(at.session_state["examples_row"]) - 1]
    at.button("examples_open").click().run()
    assert at.title[0].value == "Explore"
    assert at.text_area("explore_text").value == text
    assert at.selectbox("explore_model").value == "imdb"


def test_a_link_names_a_row() -> None:
    assert "Row 1,234: " in seen(open_examples(row="1234"))
    assert "Row 1: " in seen(open_examples(row="99999"))


def test_the_check_in_company() -> None:
    at = open_examples()
    at.button("examples_company").click().run()
    assert not at.exception
    assert "The same." in seen(at)
    assert rows(at)["in one batch"][1] == "24 of 24"


def test_a_dense_model_has_no_budgets(models: Path) -> None:
    shutil.copy(ROOT / "checkpoints/imdb/records.parquet", models / "dense" / "records.parquet")
    at = open_examples(model="dense")
    assert "made by other weights" in at.warning[0].value
    made = read_scored(models / "dense" / "records.parquet")
    flat = replace(
        made,
        source=replace(made.source, routed=False),
        records=replace(made.records, budgets=np.ones_like(made.records.budgets)),
    )
    write_scored(flat, models / "dense" / "records.parquet")
    at = open_examples(model="dense")
    (models / "dense" / "records.parquet").unlink()
    assert not at.exception
    assert "no budget that could follow anything" in at.info[0].value
    assert len(at.get("plotly_chart")) == 2


def test_without_scores_or_without_texts_the_page_says_so(models: Path) -> None:
    at = open_examples(model="dense")
    assert not at.exception and not at.get("plotly_chart")
    assert "No data set has been scored" in at.info[0].value
    path = models / "imdb" / "records.parquet"
    made = read_scored(path)
    write_scored(replace(made, source=replace(made.source, data="someone/else")), path)
    try:
        at = open_examples()
        assert "someone/else is not on this machine" in seen(at)
        assert at.text_input("examples_search").disabled
        assert at.button("examples_open").disabled
        path.write_bytes(b"PAR1")
        at = open_examples()
        assert not at.exception and "not a readable Parquet file" in seen(at)
    finally:
        write_scored(made, path)


def upload(at: AppTest, name: str, content: bytes) -> AppTest:
    at.file_uploader[0].set_value((name, content, "text/csv"))
    return at.run()


def test_own_data_is_checked_mapped_and_scored() -> None:
    at = open_examples()
    upload(at, f"{HOSTILE[:40]}.csv", b"text,label\nfine film,1\n,0\n")
    assert "row 2 has no text in the column" in seen(at)
    texts = ["A wonderful film.", "Awful. I hated it.", HOSTILE]
    table = pd.DataFrame({"review": texts, "sentiment": ["1", "0", "0"]})
    upload(at, "<b>mine.csv", table.to_csv(index=False).encode())
    assert not at.exception
    for label, meant in (("0", "negative"), ("1", "positive")):
        at.selectbox(f"examples_own_class_sentiment_{label}").select(meant).run()
    assert "3 rows of <b>mine.csv can be scored" in seen(at)
    at.button("examples_own_score").click().run(timeout=280)
    assert not at.exception
    assert at.selectbox("examples_set").value == "own-1"
    found = at.dataframe[0].value
    assert found["text"].tolist()[:2] == texts[:2]
    assert found["gold"].tolist() == ["positive", "negative", "negative"]
    assert found["predicted"].tolist()[:2] == ["positive", "negative"]
    assert "<iframe" not in bodies(at)


def test_a_name_that_is_a_path_is_refused() -> None:
    at = open_examples()
    at.segmented_control("examples_own_way").set_value("name").run()
    at.text_input("examples_own_name").set_value("/etc/passwd").run()
    at.button("examples_own_score_name").click().run()
    assert "'/etc/passwd' is no name of a data set" in seen(at)
