"""What to train: data, aim, shape and schedule, checked and estimated before the start."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import streamlit as st

from app import errors, jobs, loaders, state
from app.components import train_fields
from app.components.request import on_request
from budgetformer.commands.train import PRESETS
from budgetformer.config import read_json
from budgetformer.data import DATA_FOLDER_VARIABLE, FILE_TYPES, OFFLINE_TEST_ROWS
from budgetformer.library import free_name, suggested_name
from budgetformer.own_data import check_public_name

PRESET, KIND, READY, HUB, FILE, NAME, STARTED = (
    "train_preset",
    "train_data_kind",
    "train_data_ready",
    "train_data_hub",
    "train_data_file",
    "train_name",
    "train_started",
)
QUICKEST = ("quick", "short")
KINDS = {"ready": "Ready-made", "file": "A file of mine", "hub": "From the Hub"}
AIMS = {
    "aligned": "the budget s rises with how hard a text is, compared with others of its batch.",
    "utility": "a text gets a head where that lowers its own loss by more than the head’s price.",
    "paper": "each s is kept within its range, and the rest is left to the task, as in the paper.",
    "paper-mean": "the mean s of a batch is kept within its range; texts share heads out.",
    "requested": "any number of heads works, so that it can be asked for later; s is not learned.",
    "dense": "an ordinary Transformer with all heads on, to compare with.",
}
Training = dict[str, Any]
Upload = tuple[str, bytes]


def section() -> None:
    """Draw the form, and start what it describes."""
    if PRESET not in st.session_state:
        st.session_state[PRESET] = QUICKEST[0]
        _use_preset()
    names = {path.stem for path in PRESETS.glob("*.json")}
    presets = [*QUICKEST, *sorted(names - set(QUICKEST))]
    st.pills(
        "Start from a published experiment",
        presets,
        key=PRESET,
        on_change=_use_preset,
        persist_state="session",
        help="Fills in everything below; what you change then is yours. quick takes about a minute "
        "on one core of today, short about eight, the others up to hours.",
    )
    data, upload = _data()
    st.markdown("**What to train**")
    train_fields.first()
    objective = str(st.session_state[train_fields.key("objective")])
    st.caption(f"**{objective}**: {AIMS.get(objective, 'see the help of the field.')}")
    with st.expander("More settings"):
        train_fields.more()
    training: Training | None = None
    with errors.panel("These settings do not work"):
        train, model, starts = train_fields.read()
        training = {"data": data or "", "train": asdict(train), "model": model, **starts}
    _start(training if data or upload else None, upload)


def _data() -> tuple[str | None, Upload | None]:
    """Draw the choice of data; return its name, or the file that was uploaded."""
    st.session_state.setdefault(KIND, "ready")
    st.markdown("**What to learn from**")
    kind = st.segmented_control(
        "Kind of data",
        list(KINDS),
        format_func=KINDS.__getitem__,
        key=KIND,
        required=True,
        label_visibility="collapsed",
        persist_state="session",
    )
    if kind == "file":
        return None, _file()
    if kind == "hub":
        name = st.text_input(
            "Name on the Hub",
            key=HUB,
            placeholder="user/name",
            help="A data set of huggingface.co with the columns text and label. The server needs a "
            "network for it.",
            persist_state="session",
        )
        with errors.panel("This is no data set's name"):
            return (check_public_name(name) if name else None), None
        return None, None
    ready = _ready_made()
    if st.session_state.get(READY) not in ready:
        st.session_state[READY] = next(iter(ready))
    name = st.selectbox(
        "Data set", list(ready), key=READY, help="Here already.", persist_state="session"
    )
    st.text(ready[name])
    return name, None


def _ready_made() -> dict[str, str]:
    """Return the data sets that need no network, with a line on each."""
    found = {
        "rotten_tomatoes": "8,530 sentences of film reviews, positive or negative; short, so quick "
        "to train on.",
        "imdb": "25,000 film reviews, positive or negative; long.",
        "known-need": "Made by a rule: how many heads a text needs is known, so it can be checked "
        "whether the budget follows.",
    }
    assert set(OFFLINE_TEST_ROWS) <= set(found)
    folder = os.environ.get(DATA_FOLDER_VARIABLE)
    for path in sorted(Path(folder).glob("*/")) if folder else ():
        if any(file.name.endswith(FILE_TYPES) for file in path.iterdir()):
            found.setdefault(path.name, f"From the folder that {DATA_FOLDER_VARIABLE} names.")
    return found


def _file() -> Upload | None:
    """Draw the upload; return the file's ending and content once it has been read."""
    file = st.file_uploader(
        "A table of labelled texts",
        type=[ending.removeprefix(".") for ending in FILE_TYPES],
        key=FILE,
        help="Columns text and label, and if you like text_pair (a second text) and split (train, "
        "validation, test). The file is kept on the server with the training.",
    )
    if file is None:
        return None
    ending = next(e for e in sorted(FILE_TYPES, key=len, reverse=True) if file.name.endswith(e))
    content = file.getvalue()
    with errors.panel("This file cannot be trained on"):
        rows, validation, labels = loaders.labelled_table(
            hashlib.sha256(content).hexdigest(), ending, content
        )
        names = ", ".join(labels[:20])
        st.text(f"{rows:,} texts to train on, {validation:,} to validate on; labels: {names}")
        return ending, content
    return None


def _start(training: Training | None, upload: Upload | None) -> None:
    """Draw the name, the estimate and the button."""
    folder = jobs.runs_folder()
    about = Path(st.session_state.get(READY) or "run").name if not upload else "own-data"
    objective = training["train"]["objective"] if training else "run"
    proposal = free_name(folder, suggested_name(f"{about}-{objective}"))
    st.markdown("**Name and start**")
    typed = st.text_input(
        "Name of the training",
        key=NAME,
        placeholder=proposal,
        help="The model is listed under this name on all pages once it is finished.",
        persist_state="session",
    )
    name = (typed or "").strip() or proposal
    with st.container(horizontal=True, vertical_alignment="center"):
        # Not on_click: its arguments would be those of the page before the last field was left.
        pressed = st.button(
            "Start",
            key="train_start",
            type="primary",
            icon=":material/play_arrow:",
            disabled=training is None,
        )
        if training is None:
            st.caption("Choose data above, and settings that work.")
        else:
            _estimate(training, upload)
    if pressed and training is not None:
        with errors.panel("This training could not be started"):
            st.session_state[STARTED] = jobs.start(name, training, upload).name
            st.rerun()
    if training is not None:
        with st.expander("The same from the command line"):
            shown = {**training, "data": training["data"] or "YOUR-FILE"}
            st.code(jobs.command_line(name, shown), language=None, wrap_lines=True)
            st.caption("It trains the same model, bit for bit, on the same kind of processor.")


def _estimate(training: Training, upload: Upload | None) -> None:
    question = (repr(training), upload and hashlib.sha256(upload[1]).hexdigest())
    found = on_request(
        "train_estimate",
        question,
        "How long will it take?",
        lambda _: _measure(training, upload),
        help="Runs a few real steps on this machine, from short to long texts, and adds up. Takes "
        "about as long as reading the data does.",
    )
    if found:
        st.text(
            f"Estimate: about {duration(found['seconds'] + found['load_s'])}. "
            f"{found['n_steps']:,} steps of {found['step_ms']:.0f} ms (measured here just now, on "
            f"{found['n_measured']}), {found['parameters']:,} parameters."
        )


def _measure(training: Training, upload: Upload | None) -> dict[str, Any]:
    if upload is None:
        return jobs.estimate(training)
    with tempfile.NamedTemporaryFile(suffix=upload[0]) as file:
        file.write(upload[1])
        file.flush()
        return jobs.estimate({**training, "data": file.name})


def duration(seconds: float) -> str:
    """Write a time as people say it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def _use_preset() -> None:
    name = st.session_state[PRESET]
    path = PRESETS / f"{name}.json"
    if name is None or not path.is_file():
        return
    preset = read_json(path)
    train_fields.use(preset)
    data = preset.get("data", "")
    if data in _ready_made():
        st.session_state[KIND], st.session_state[READY] = "ready", data
    else:
        st.session_state[KIND], st.session_state[HUB] = "hub", data


def show_started() -> None:
    """Turn to a training that was started in the run before; called before anything is drawn."""
    if name := st.session_state.pop(STARTED, None):
        st.session_state[NAME] = ""
        st.session_state[state.TRAIN_PART] = "watch"
        st.session_state[state.TRAIN_RUN] = name
