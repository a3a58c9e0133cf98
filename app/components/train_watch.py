"""A training as it goes: where it is, what can be told to it, and what it has learned so far."""

from __future__ import annotations

import streamlit as st

from app import errors, jobs, loaders, state
from app.components import train_answer, train_curves, train_moment
from app.components.tables import source
from app.components.train_form import duration
from app.layout import slot
from budgetformer.control import read_wishes

LOOK_S = 2.0
SIGNS: dict[jobs.Status, str] = {
    "waiting": "hourglass_empty",
    "starting": "hourglass_top",
    "running": "directions_run",
    "paused": "pause_circle",
    "stopped": "stop_circle",
    "failed": "error",
    "interrupted": "power_off",
    "finished": "check_circle",
}


def section() -> None:
    """Draw the choice of the training, and that training."""
    names = jobs.names()
    if not names:
        st.info("There is no training yet. Begin one under “Start one”.", icon=":material/school:")
        return
    state.read_url(state.TRAIN_RUN, names[0])
    asked = st.session_state[state.TRAIN_RUN]
    with slot():
        if asked not in names:
            errors.show("This training is not here", f"{asked}; showing {names[0]} instead")
            st.session_state[state.TRAIN_RUN] = names[0]
    name = st.selectbox(
        "Training",
        names,
        key=state.TRAIN_RUN,
        help="The newest first. Everyone who uses this app sees the same trainings.",
        persist_state="session",
    )
    state.write_url(state.TRAIN_RUN, names[0])
    now = jobs.state(name, loaders.history(name))
    # Only a training whose process is there can change by itself.
    st.fragment(_watch, run_every=LOOK_S if now.alive else None)(name, now.alive)


def _watch(name: str, was_alive: bool) -> None:
    now = jobs.state(name, loaders.history(name))
    if now.alive != was_alive:
        st.rerun()
    with errors.panel("This part could not be drawn"):
        _where(now)
        _controls(now)
        with slot():
            if now.status == "failed":
                errors.show("This training has failed", now.reason)
                with st.expander("All that it wrote"):
                    st.code(now.log, language=None, wrap_lines=True)
        st.space("small")
        train_answer.section(now)
        with slot():
            if now.history.steps:
                st.space("small")
                train_curves.section(now.history)
        if now.history.steps or now.history.epochs:
            st.space("small")
            train_moment.section(now)


@slot()
def _where(now: jobs.State) -> None:
    """Say what it does, how far it is, and how much is left."""
    history = now.history
    done = history.step / history.n_steps if history.n_steps else 0.0
    st.markdown(f":material/{SIGNS[now.status]}: **It {jobs.WORDS[now.status]}.** {_detail(now)}")
    st.progress(1.0 if now.status == "finished" else min(1.0, done))
    parts = []
    if history.n_steps:
        per_epoch = int((history.start or {})["steps_per_epoch"])
        epoch = min(history.step // per_epoch + 1, history.n_steps // per_epoch)
        parts.append(
            f"Step <b>{history.step:,}</b> of {history.n_steps:,}, "
            f"epoch <b>{epoch}</b> of {history.n_steps // per_epoch}"
        )
    left = history.seconds_left
    if now.status == "running" and left is not None:
        parts.append(f"about <b>{duration(left)}</b> left, at the pace of the last steps")
        parts.append(source("estimated"))
    if history.epochs:
        last = history.epochs[-1]
        parts.append(
            f"right on <b>{last['accuracy']:.1%}</b> of {last['n']:,} validation texts with "
            f"<b>{last['executed_heads_frac']:.1%}</b> of the heads"
        )
        parts.append(source("measured here"))
    st.html(f'<div class="bf-badge" style="flex-wrap:wrap">{_spans(parts)}</div>')


def _spans(parts: list[str]) -> str:
    return "".join(part if part.startswith("<span") else f"<span>{part}</span>" for part in parts)


def _detail(now: jobs.State) -> str:
    told = read_wishes(now.folder).wish
    if told != "run" and now.status in ("starting", "running"):
        return f"It has been told to {told}, and does so before its next step."
    saved = "Nothing since the last saved state is lost: it goes on from there, as if undisturbed."
    return {
        "waiting": f"It is number {now.place} in line; at most {jobs.most_at_once()} at once.",
        "starting": "It reads the data and builds the vocabulary.",
        "running": "You may close this page: it goes on.",
        "paused": "Its state is saved.",
        "stopped": "Its state is saved; it can go on at any time.",
        "failed": "",
        "interrupted": f"Its process ended without a word: killed, or switched off. {saved}",
        "finished": "It is listed with the other models on all pages.",
    }[now.status]


@slot()
def _controls(now: jobs.State) -> None:
    """Draw the buttons; each tells the training something, and the next look shows the effect."""
    per_epoch = int((now.history.start or {}).get("steps_per_epoch", 0))
    to_epoch = per_epoch - now.history.step % per_epoch if per_epoch else 0
    can = now.folder.name in jobs.controllable()
    paused, live = now.status == "paused", now.status in ("waiting", "starting", "running")
    if now.status == "finished":
        if st.button("Use it on the page Explore", key="train_explore", icon=":material/search:"):
            st.session_state[state.EXPLORE_MODEL] = f"runs/{now.name}"
            st.switch_page("../pages/explore.py")
        return
    if not can:
        st.caption("This training was started from the command line, and is told there what to do.")
        return
    with st.container(horizontal=True):
        if live:
            told = read_wishes(now.folder).wish
            _button("Pause", "pause", told == "run", jobs.pause, now.name)
        else:
            words = "Play" if paused else "Resume"
            _button(words, "play_arrow", True, jobs.resume, now.name)
        _button("One batch", "skip_next", paused, jobs.advance, now.name, 1)
        _button("To the epoch’s end", "fast_forward", paused, jobs.advance, now.name, to_epoch)
        _button("Stop", "stop", live or (paused and now.alive), jobs.stop, now.name)
    if paused:
        st.caption(
            "Play goes on to the end. One batch takes a single step and pauses again, so that you "
            "see what it changes."
        )


def _button(label: str, icon: str, enabled: bool, action: object, *args: object) -> None:
    st.button(
        label,
        key=f"train_do_{icon}",
        icon=f":material/{icon}:",
        disabled=not enabled,
        on_click=_tell,
        args=(action, *args),
    )


def _tell(action, *args) -> None:  # type: ignore[no-untyped-def]
    with errors.panel("The training could not be told"):
        action(*args)
