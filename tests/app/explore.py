"""What tests of the Explore page share: opening it, and reading what it shows."""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from tests.conftest import ROOT

TEXT = "A dull story, but the music is lovely and I didn't mind the ending."
TEXT_KEY, PAIR_KEY, MODEL_KEY = "explore_text", "explore_text_pair", "explore_model"
PART_KEY = "explore_part"


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
    chart = next(c for c in at.get("plotly_chart") if c.proto.id.endswith(f"-{key}"))
    return json.loads(chart.proto.spec), chart.proto.alt


def predict(text: str, pair: str | None = None, model: Path = ROOT / "checkpoints" / "imdb") -> Any:
    from budgetformer import Checkpoint
    from budgetformer import predict as library

    checkpoint = Checkpoint.from_pretrained(model)
    return checkpoint.config, library(checkpoint, text, pair)


def assert_no_result(at: AppTest) -> None:
    assert not at.exception
    assert not at.get("plotly_chart")
    assert "Heads run" not in seen(at)


def assert_result(at: AppTest) -> None:
    assert not at.exception
    assert "Heads run" in seen(at)
    assert "could not be drawn" not in bodies(at) + " ".join(m.value for m in at.markdown)


def numbers(values: Any) -> np.ndarray:
    """The numbers of a figure, which travel as base64."""
    if not isinstance(values, dict):
        return np.asarray(values)
    data = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    shape = [int(n) for n in str(values.get("shape", len(data))).split(",")]
    return data.reshape(shape)


def click(at: AppTest, chart: str, point: int) -> AppTest:
    """Play a click on a point of a chart."""
    # In a browser a chart that changes loses its selection; AppTest keeps it.
    at.session_state[chart] = {"selection": {"points": []}}
    at.run()
    at.session_state[chart] = {"selection": {"points": [{"point_index": point}]}}
    return at.run()
