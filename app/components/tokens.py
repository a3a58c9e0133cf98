"""What the model read: its tokens, and what it could not read."""

from __future__ import annotations

import html

import streamlit as st

from app import state
from app.layout import slot
from budgetformer.checkpoint import Checkpoint
from budgetformer.tokenizer import Encoding
from budgetformer.trace import Trace

LAST_WORDS = 6
MOST_NAMED = 5


@slot()
def notices(trace: Trace) -> None:
    """Say what was cut off and which words the vocabulary lacks."""
    for segment, text in enumerate(trace.texts):
        cut = trace.encoding.cut[segment]
        if cut is not None:
            which = "" if len(trace.texts) == 1 else ("first ", "second ")[segment]
            last = " ".join(text[:cut].split()[-LAST_WORDS:])
            _notice(
                f"Your {which}text is longer than the model can read. It stopped after "
                f"“… {last}”; the {_count(len(text[cut:].split()), 'word')} after that had no "
                "influence."
            )
    unknown = [
        trace.texts[trace.encoding.segments[i]][slice(*trace.encoding.offsets[i])]
        for i, is_unknown in enumerate(trace.encoding.unknown)
        if is_unknown
    ]
    if unknown:
        names = list(dict.fromkeys(unknown))
        named = ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
        verb = "is" if len(unknown) == 1 else "are"
        _notice(
            f"{_count(len(unknown), 'word')} {verb} unknown to this model: {named}. It knows that "
            "something stands there, not what."
        )


def section(checkpoint: Checkpoint, trace: Trace) -> None:
    """Draw the tokens with the switch for special ones."""
    with st.container(
        horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"
    ):
        st.subheader(
            "What the model read",
            help="Tokens: the pieces of words that the model knows. A long or rare word is read in "
            "several; “##” marks a piece inside a word.",
            width="content",
        )
        show_special = st.toggle(
            "Show special tokens",
            value=True,
            key=state.EXPLORE_SHOW_SPECIAL,
            help="[CLS] and [SEP] are put round every text. They count, and the model reads them.",
            persist_state="session",
        )
    st.markdown(
        f"**{len(trace.encoding.ids)} of {checkpoint.config.max_len}** tokens. Joined pieces "
        "belong to one word."
    )
    strip(trace, show_special)


def strip(trace: Trace, show_special: bool) -> None:
    """Draw one chip a token; pieces of one word touch."""
    chips = "".join(
        _chip(trace.encoding, i)
        for i, special in enumerate(trace.encoding.special)
        if show_special or not special
    )
    st.html(
        '<div class="bf-tokens bf-scroll" tabindex="0" role="region" aria-label="Tokens">'
        f"{chips}</div>"
    )


def _chip(encoding: Encoding, i: int) -> str:
    token = encoding.tokens[i]
    if encoding.special[i]:
        kind, hint = "bf-special", "added by the model, not in your text"
    elif encoding.unknown[i]:
        kind, hint = "bf-unknown", "not in the vocabulary"
    elif token.startswith("##") and encoding.offsets[i][0] == encoding.offsets[i - 1][1]:
        kind, hint = "bf-inside", "goes on with the word before it"
    else:
        kind, hint = "", ""
    flag = "<small>unknown</small>" if encoding.unknown[i] else ""
    return f'<span class="bf-token {kind}" title="{hint}">{html.escape(token)}{flag}</span>'


def _notice(text: str) -> None:
    """Draw a notice whose text quotes the user: plain text, no markdown."""
    with st.container(border=True, horizontal=True, vertical_alignment="top", gap="small"):
        st.markdown(":orange[:material/warning:]", width="content")
        st.text(text)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
