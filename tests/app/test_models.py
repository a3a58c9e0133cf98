"""The Models page lists every model, and does with them what its buttons say."""

from __future__ import annotations

import html
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.conftest import HOSTILE, ROOT

PICK = "models_model"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Folders with one trained and one uploaded model, imdb both."""
    for folder in ("own_runs/mine", "own_models/theirs"):
        shutil.copytree(ROOT / "checkpoints" / "imdb", tmp_path / folder)
    return tmp_path


def open_models(picked: str | None = None) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    if picked is not None:
        at.query_params[PICK] = picked
    return at.switch_page("../pages/models.py").run()


def sent(at: AppTest) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


def rows(at: AppTest) -> dict[str, list[str]]:
    """Every table row of the page by its first cell."""
    found = re.findall(r"<tr[^>]*>(<t[dh][ >].*?)</tr>", sent(at))
    cells = [
        [html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        for row in found
    ]
    return {row[0]: row[1:] for row in cells}


def plain(at: AppTest) -> str:
    return "\n".join(element.value for element in at.text)


def button(at: AppTest, key: str) -> Any:
    return next(b for b in at.button if b.key == key)


def archive(folder: Path, name: str = "m", **changes: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for path in folder.iterdir():
            if path.suffix in (".json", ".safetensors", ".md"):
                file.writestr(f"{name}/{path.name}", changes.get(path.stem, path.read_bytes()))
    return buffer.getvalue()


def upload(at: AppTest, content: bytes, file_name: str = "mine.zip") -> AppTest:
    number = at.session_state["models_uploads"]
    at.file_uploader(f"models_upload_{number}").upload(file_name, content, "application/zip")
    return at.run()


def test_the_list_holds_what_the_files_say(own: Path) -> None:
    at = open_models()
    assert not at.exception
    shipped = {path.parent.name for path in (ROOT / "checkpoints").glob("*/config.json")}
    options = at.selectbox(PICK).options
    assert set(options) == {*shipped, "runs/mine", "models/theirs"}
    metrics = json.loads((ROOT / "checkpoints" / "imdb" / "metrics.json").read_text())["test"]
    shown = rows(at)
    for name, kind in (
        ("imdb", "shipped"),
        ("runs/mine", "trained here"),
        ("models/theirs", "uploaded"),
    ):
        assert shown[name][:4] == [
            f"{metrics['accuracy']:.1%}",
            f"{metrics['n']:,}",
            f"{metrics['executed_heads_frac']:.1%}",
            "2 × 8",
        ]
        assert shown[name][5:7] == ["imdb", kind]
    assert shown["imdb-dense"][2] == "100.0%"
    assert dict(at.query_params) == {}


def test_details_and_figures() -> None:
    from budgetformer import Checkpoint

    at = open_models("imdb-dense")
    folder = ROOT / "checkpoints" / "imdb-dense"
    checkpoint = Checkpoint.from_pretrained(folder)
    shown = rows(at)
    count = sum(parameter.numel() for parameter in checkpoint.model.parameters())
    assert shown["Parameters"] == [f"{count:,}, 16-bit numbers on disk"]
    assert shown["Heads"] == ["all run, on every text"]
    assert shown["Decides between"] == ["negative, positive"]
    assert shown["Objective"] == ["dense: all heads run, seed 0"]
    validation, test = checkpoint.metrics["validation"], checkpoint.metrics["test"]
    assert shown["accuracy"] == [f"{validation['accuracy']:.4f}", f"{test['accuracy']:.4f}"]
    assert shown["examples"] == [f"{validation['n']:,}", f"{test['n']:,}"]
    codes = [code.value for code in at.code]
    for name in ("metrics.json", "README.md"):
        assert (folder / name).read_text().strip() in [code.strip() for code in codes]
    assert not [b for b in at.button if b.key in ("models_delete", "models_rename")]
    assert "stays as it is" in sent(at)


def test_models_of_every_kind_and_state(models: Path) -> None:
    at = open_models()
    assert not at.exception
    shown = rows(at)
    assert shown["not json"][:5] == ["–"] * 5
    assert shown["not json"][6] == "shipped, damaged"
    for name in ("not json", "cut off", "half", "pair", "<b>odd $1 $2"):
        at.selectbox(PICK).set_value(name).run()
        assert not at.exception
        assert at.query_params[PICK] == name
    odd = rows(at)["Decides between"][0]
    assert odd.startswith("<i>class 0</i> **$x$**, <i>class 1</i>")
    assert "<i>" not in sent(at) and "<b>odd" not in sent(at)
    at.selectbox(PICK).set_value("not json").run()
    assert "This model cannot be used" in "".join(m.value for m in at.markdown)
    assert button(at, "models_use").disabled and button(at, "models_compare").disabled


def test_a_foreign_card_and_foreign_figures_are_only_text(own: Path) -> None:
    folder = own / "own_models" / "theirs"
    (folder / "README.md").write_text(HOSTILE)
    metrics = {
        "training": {"data": HOSTILE, "train": {"objective": HOSTILE, "seed": "x"}, "rows": []},
        HOSTILE: {"accuracy": 0.5, HOSTILE: 1, "n": "many"},
        "test": ["accuracy"],
    }
    (folder / "metrics.json").write_text(json.dumps(metrics))
    at = open_models("models/theirs")
    assert not at.exception
    assert HOSTILE in [code.value for code in at.code]
    assert rows(at)["Trained on"] == [HOSTILE]
    assert HOSTILE in html.unescape(sent(at))
    for tag in ("<img", "<iframe", "<script", "<!-- x"):
        assert tag not in sent(at)
    marked = "".join(m.value for m in at.markdown) + "".join(c.value for c in at.caption)
    assert "onerror" not in marked
    assert not [m for m in at.markdown if m.proto.allow_html]


def test_set_as_current_and_explore_opens_with_it(own: Path) -> None:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    at.switch_page("../pages/explore.py").run()
    assert at.selectbox("explore_model").value == "imdb"
    at.switch_page("../pages/models.py").run()
    at.selectbox(PICK).set_value("models/theirs").run()
    button(at, "models_use").click().run()
    assert button(at, "models_use").disabled
    assert "<tr class='bf-strong'><td>models/theirs" in sent(at)
    # Pages that were open before turn to it as well as those that were not.
    at.switch_page("../pages/explore.py").run()
    assert at.selectbox("explore_model").value == "models/theirs"
    assert at.query_params["explore_model"] == "models/theirs"
    at.switch_page("../pages/compare.py").run()
    assert at.selectbox("compare_model").value == "models/theirs"
    # What is picked on a page stays, until another model is set.
    at.selectbox("compare_model").set_value("imdb").run()
    at.switch_page("../pages/models.py").run()
    at.switch_page("../pages/compare.py").run()
    assert at.selectbox("compare_model").value == "imdb"


def test_compare_opens_with_the_two(own: Path) -> None:
    at = open_models("runs/mine")
    assert not at.exception
    at.selectbox("models_other_runs/mine").set_value("models/theirs").run()
    button(at, "models_compare").click()
    at.run()
    assert not at.exception
    assert at.selectbox("compare_model").value == "runs/mine"
    assert at.selectbox("compare_model_b").value == "models/theirs"
    assert "runs/mine" in sent(at) and "models/theirs" in sent(at)
    # From there to Explore, with the model's whole name.
    at.switch_page("../pages/compare.py").run()
    button(at, "compare_open_b").click().run()
    assert at.selectbox("explore_model").value == "models/theirs"


def test_the_twin_is_what_is_compared_first() -> None:
    assert open_models("imdb").selectbox("models_other_imdb").value == "imdb-dense"
    assert open_models("imdb-dense").selectbox("models_other_imdb-dense").value == "imdb"


def test_delete_and_undo(own: Path) -> None:
    at = open_models("models/theirs")
    button(at, "models_use").click().run()
    button(at, "models_delete").click().run()
    assert not at.exception
    assert "models/theirs" not in at.selectbox(PICK).options
    assert at.selectbox(PICK).value == "imdb" and PICK not in at.query_params
    assert "models/theirs is in the trash." in plain(at)
    button(at, "models_undo").click().run()
    assert "models/theirs is back." in plain(at)
    assert at.selectbox(PICK).value == "models/theirs"
    assert not [b for b in at.button if b.key == "models_undo"]
    assert sorted(p.name for p in (own / "own_models").iterdir() if p.name != ".trash") == [
        "theirs"
    ]


def test_the_next_deletion_ends_the_first_ones_undo(own: Path) -> None:
    at = open_models("models/theirs")
    button(at, "models_delete").click().run()
    at.selectbox(PICK).set_value("runs/mine").run()
    button(at, "models_delete").click().run()
    assert "runs/mine is in the trash." in plain(at)
    assert "models/theirs" not in plain(at)
    assert not list((own / "own_models" / ".trash").iterdir())
    button(at, "models_undo").click().run()
    assert "runs/mine" in at.selectbox(PICK).options


def test_rename(own: Path) -> None:
    at = open_models("models/theirs")
    button(at, "models_use").click().run()
    at.text_input("models_new_name_models/theirs").set_value("ours").run()
    button(at, "models_rename").click().run()
    assert not at.exception
    assert "models/theirs is called models/ours now." in plain(at)
    assert at.selectbox(PICK).value == "models/ours"
    at.switch_page("../pages/explore.py").run()
    assert at.selectbox("explore_model").value == "models/ours"
    at.switch_page("../pages/models.py").run()
    at.text_input("models_new_name_models/ours").set_value("<b>/..").run()
    button(at, "models_rename").click().run()
    assert "cannot be a model's name" in plain(at)
    assert at.selectbox(PICK).value == "models/ours"


@pytest.mark.parametrize("act", ["delete", "rename"])
def test_another_user_is_told_what_happened(own: Path, act: str) -> None:
    from app import loaders

    def other_user() -> None:
        if act == "delete":
            loaders.library().delete("models/theirs")
        else:
            loaders.library().rename("models/theirs", "elsewhere")

    looking = open_models("models/theirs")
    reading = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    reading.query_params["explore_model"] = "models/theirs"
    reading.switch_page("../pages/explore.py").run()
    assert reading.selectbox("explore_model").value == "models/theirs"
    other_user()
    reading.run()
    assert not reading.exception
    assert "models/theirs; showing imdb instead. It was deleted or renamed" in plain(reading)
    # Both press a button of a page that was drawn before.
    button(looking, "models_delete").click().run()
    assert not looking.exception
    assert "The model models/theirs is not here" in plain(looking)
    assert "models/theirs was deleted or renamed; showing imdb instead." in plain(looking)
    assert "should not have" not in plain(looking) + plain(reading)


def test_a_model_that_goes_while_a_part_is_drawn(own: Path) -> None:
    from app import computed, loaders
    from budgetformer import predict

    model = loaders.checkpoint("models/theirs")
    trace = predict(model, "a film")
    loaders.library().delete("models/theirs")
    for ask in (computed.attribution, computed.audit, computed.text_sweep):
        with pytest.raises(ValueError, match="theirs is not here any more: somebody renamed"):
            ask(model, trace)
    with pytest.raises(ValueError, match="is not here"):
        loaders.checkpoint("models/theirs")


def test_upload(own: Path) -> None:
    at = open_models()
    content = archive(ROOT / "checkpoints" / "imdb")
    upload(at, content, "Übung 1 <b>.zip")
    (name,) = [t for t in at.text_input if (t.key or "").startswith("models_name_")]
    assert name.value == "Übung 1 -b"
    button(at, "models_add").click().run()
    assert not at.exception
    assert "models/Übung 1 -b was checked and added." in plain(at)
    assert at.selectbox(PICK).value == "models/Übung 1 -b"
    assert rows(at)["models/Übung 1 -b"][0] == rows(at)["imdb"][0]
    # The widget is empty again.
    assert not [b for b in at.button if b.key == "models_add"]


def test_a_collision_asks_what_to_do(own: Path) -> None:
    at = open_models()
    content = archive(ROOT / "checkpoints" / "imdb-dense")
    upload(at, content, "theirs.zip")
    assert "models/theirs is there already. If you keep both, the new one is models/theirs-2." in (
        plain(at)
    )
    button(at, "models_add").click().run()
    assert at.selectbox(PICK).value == "models/theirs-2"
    upload(at, content, "theirs.zip")
    (choice,) = [r for r in at.radio if (r.key or "").startswith("models_collision_")]
    choice.set_value("replace").run()
    button(at, "models_add").click().run()
    assert at.selectbox(PICK).value == "models/theirs"
    assert rows(at)["models/theirs"][2] == "100.0%"
    button(at, "models_undo").click().run()
    assert at.selectbox(PICK).value == "models/theirs-3"
    assert rows(at)["models/theirs-3"][2] == rows(at)["imdb"][2]


CONFIG = (ROOT / "checkpoints" / "imdb" / "config.json").read_bytes()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda f: b"nonsense", "no whole zip archive"),
        (lambda f: archive(f, config=b'{"labels": 3}'), "labels must be a list of texts"),
        (lambda f: archive(f, name=".."), "lead out of its folder"),
        (lambda f: archive(f, config=CONFIG.replace(b"positive", b"\\u0007")), "U+0007"),
    ],
)  # fmt: skip
def test_a_refused_upload_says_why(own: Path, make: Callable[[Path], bytes], reason: str) -> None:
    at = open_models()
    before = at.selectbox(PICK).options
    upload(at, make(ROOT / "checkpoints" / "imdb"))
    button(at, "models_add").click().run()
    assert not at.exception
    assert reason in plain(at)
    assert "This model was not added" in "".join(m.value for m in at.markdown)
    assert at.selectbox(PICK).options == before
    assert [p.name for p in (own / "own_models").iterdir()] == ["theirs"]


def test_the_limits_are_stated() -> None:
    at = open_models()
    (heading,) = [h for h in at.subheader if h.value == "Upload a model"]
    assert "At most 200 MB, 256 MB unpacked (250 MB for .safetensors, 16 MB for .json" in (
        heading.help
    )
    assert "32 files" in heading.help


def test_the_hub(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from budgetformer import hub

    at = open_models()
    button(at, "models_fetch").click().run()
    assert "Type the name of a model" in at.info[0].value
    at.text_input("models_hub_id").set_value("<img src=x>").run()
    button(at, "models_fetch").click().run()
    assert "'<img src=x>' is no model of the Hub" in plain(at)
    at.text_input("models_hub_id").set_value("someone/model").run()
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    button(at, "models_fetch").click().run()
    assert not at.exception
    assert "the Hub cannot be reached for someone/model: no network" in plain(at)

    def fetch(library: Any, hub_id: str) -> str:
        with library.staging() as place:
            shutil.copytree(ROOT / "checkpoints" / "imdb", place / "model")
            added: str = library.add_from_hub(place / "model", "someone", "model")
        return added

    monkeypatch.setattr(hub, "fetch", fetch)
    button(at, "models_fetch").click().run()
    assert at.selectbox(PICK).value == "someone/model"
    assert rows(at)["someone/model"][6] == "from the Hub"
    assert not [b for b in at.button if b.key == "models_rename"]
    button(at, "models_use").click().run()
    at.switch_page("../pages/explore.py").run()
    assert at.selectbox("explore_model").value == "someone/model"
    assert "Answer of model" in sent(at)


def test_a_link_to_a_model_that_is_gone_says_so() -> None:
    at = open_models("models/gone")
    assert "models/gone was deleted or renamed; showing imdb instead." in plain(at)


def test_no_models_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from app import loaders

    monkeypatch.setattr(loaders, "CHECKPOINTS", tmp_path / "none")
    at = open_models()
    assert not at.exception
    assert "There is no model yet" in at.info[0].value
    upload(at, archive(ROOT / "checkpoints" / "imdb"))
    button(at, "models_add").click().run()
    assert at.selectbox(PICK).value == "models/mine"


def test_an_8_bit_model_is_listed_and_comes_back(tmp_path: Path) -> None:
    from budgetformer import Checkpoint
    from budgetformer.archive import pack

    small = tmp_path / "own_runs" / "small"
    imdb = Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb")
    imdb.save_pretrained(small, "int8")
    at = open_models("runs/small")
    shown = rows(at)
    assert shown["runs/small"][4] == shown["imdb"][4]
    assert shown["Parameters"][0].endswith("8-bit numbers on disk")
    upload(at, pack(small, "small"), "small.zip")
    button(at, "models_add").click().run()
    assert at.selectbox(PICK).value == "models/small"
    button(at, "models_use").click().run()
    at.switch_page("../pages/explore.py").run()
    assert not at.exception and "Answer of small" in sent(at)
