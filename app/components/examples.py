"""The text to look at: a box to type in and texts to start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from app import state
from app.layout import slot
from budgetformer import known_need

if TYPE_CHECKING:
    from budgetformer.checkpoint import Checkpoint


@dataclass(frozen=True)
class Example:
    """A text, or a pair, with one line on what to look for in what the model does with it."""

    name: str
    look_for: str
    text: str
    text_pair: str = ""
    data: str = ""
    """The data set whose rule the text follows; such a model is shown no others."""


EXAMPLES = (
    Example(
        "Easy",
        "Every word points the same way. Is the model sure, and does it spend few heads?",
        "A wonderful film. Brilliant acting, a beautiful score, and I loved every minute of it.",
    ),
    Example(
        "Hard",
        "Praise in the words, doubt in the sense. Does the budget rise compared with Easy?",
        "It is exactly the kind of film that wins prizes, and about as warm as the ceremony where "
        "it will win them.",
    ),
    Example(
        "Negated",
        "“Not” turns the good words round. See Why: the colours of “not” and of what follows it.",
        "This is not a good film. It isn't funny, it isn't clever, and nobody in it is worth "
        "caring about.",
    ),
    Example(
        "Ironic",
        "The words say thanks, the writer means the opposite. Which of the two does it hear?",
        "Oh great, another two hours of explosions. Just what I needed. My favourite part was "
        "the exit.",
    ),
    Example(
        "Mixed",
        "Half praise, half complaint: the class probabilities should be closer to each other.",
        "The photography is stunning and the lead actress is superb, but the script is dull, the "
        "ending makes no sense and I was bored for most of it.",
    ),
    Example(
        "Long",
        "Attention costs the square of the length, so here a skipped head saves the most.",
        "I went in expecting very little. My sister had chosen the film, it was raining, and the "
        "cinema smelled of wet coats. The first half hour did nothing to change my mind: people "
        "talk in kitchens, somebody loses a set of keys, and a dog looks out of a window for "
        "longer than any dog should. I began to count the lamps on the ceiling.\n\n"
        "Then, without any warning, the story turns. The old woman whom everybody has treated as "
        "part of the furniture sits down at the piano and plays, badly, the song that her husband "
        "wrote for her forty years ago. The camera does not move. Nobody says anything. By the "
        "second verse I had stopped counting lamps, and by the third I could not have told you "
        "where the ceiling was.\n\n"
        "What follows is not perfect. The lawyer is a cartoon, the scene at the station is "
        "explained twice, and the last five minutes could have been left out without anybody "
        "missing them. But the two leads are so good together, and the silences between them are "
        "so well judged, that I forgave all of it. When the lights came up my sister asked "
        "whether I wanted to leave, and I found that I did not. I have since seen it again, with "
        "my parents, who argued about it all the way home, and I expect that I shall see it a "
        "third time. Go on a rainy day, sit near the front, and be patient with the dog.",
    ),
    Example(
        "Short",
        "Three words, and hardly anything for attention to connect. How low does the budget go?",
        "Loved it!",
    ),
    Example(
        "Emoji",
        "Signs that a vocabulary may lack. See below which of them the model could not read.",
        "Best night at the cinema this year 🎬🍿 cried twice 😭 would go again 👍🏽👩‍👩‍👧",
    ),
    Example(
        "Another language",
        "The model learned English. It still answers, and may well be sure: do not trust that.",
        "Der Film ist langweilig und viel zu lang, aber die Musik ist wunderschön.",
    ),
    Example(
        "Nothing to judge",
        "No opinion in it at all. The model must choose a class all the same; what tips it?",
        "The train leaves the station at ten and arrives in the city at noon.",
    ),
    Example(
        "Follows",
        "The second sentence says less than the first, so it must be true if the first is.",
        "A woman in a red coat is walking her dog along the beach.",
        "A woman is outside with an animal.",
    ),
    Example(
        "Contradicts",
        "One word makes both impossible at once. Is it the word that counts, under Why?",
        "Two boys are playing football in the rain.",
        "The two boys are asleep in bed.",
    ),
    Example(
        "Neither",
        "The second may be true or not. This is the hardest kind: does the budget rise?",
        "A man is standing in front of a bakery.",
        "The man is waiting for his wife to buy bread.",
    ),
    Example(
        "Negated pair",
        "The words are nearly the same and the meaning is not. Does the model fall for that?",
        "The children are eating lunch in the garden.",
        "The children are not eating lunch in the garden.",
    ),
    Example(
        "One distance, true",
        "Each “one” says: the next word is an animal. They all are. Looking one word ahead takes "
        "one head: how many run?",
        "clover one goat ivy one ant birch one crow yew elm one ant one owl",
        data=known_need.NAME,
    ),
    Example(
        "One distance, false",
        "Six words after each “six” there should be an animal, and there is a plant. Still one "
        "distance: is it still one head?",
        "six six lynx six six six elm yew ant reed ash oak hare owl bear",
        data=known_need.NAME,
    ),
    Example(
        "Five distances, true",
        "Five number words, five distances to look ahead at once, and an animal at the end of "
        "each. How many heads run now? Take some out under What if.",
        "six fern two five bear wolf bear three toad four goat moss oak bear goat",
        data=known_need.NAME,
    ),
    Example(
        "Five distances, false",
        "“seven” points at “clover”, which is no animal; the other four are right. See Why: which "
        "words does the answer hang on?",
        "lynx seven birch three bear reed crow six clover ant birch yew four mole one toad hare",
        data=known_need.NAME,
    ),
)


def text_input(model: Checkpoint | None) -> tuple[str, str | None]:
    """Draw the text box, or the two of a model that compares texts, and the examples.

    Returns:
        The text and the second text, None where the model reads one.
    """
    n_segments = model.config.n_segments if model else 1
    examples = {example.name: example for example in _examples(model, n_segments)}
    first = next(iter(examples.values()))
    text = text_area(
        "First text" if n_segments == 2 else "Your text", state.EXPLORE_TEXT, first.text
    )
    pair = None
    if n_segments == 2:
        pair = text_area("Second text", state.EXPLORE_TEXT_PAIR, first.text_pair)
    shown = next(
        (e for e in examples.values() if (e.text, e.text_pair) == (text, pair or "")), None
    )
    # The mark follows the text: a text that was changed by hand is no longer the example.
    st.session_state[state.EXPLORE_EXAMPLE] = shown.name if shown else None
    st.pills(
        "Or start from an example",
        list(examples),
        key=state.EXPLORE_EXAMPLE,
        on_change=_use_example,
    )
    with slot():
        if shown:
            st.caption(f"**What to look for.** {shown.look_for}")
    return text, pair


def _examples(model: Checkpoint | None, n_segments: int) -> list[Example]:
    """Return those for the rule that the model has learned, or else those for any reader."""
    training = model.metrics.get("training") if model else None
    data = training.get("data") if isinstance(training, dict) else None
    fitting = [e for e in EXAMPLES if bool(e.text_pair) == (n_segments == 2)]
    return [e for e in fitting if e.data == data] or [e for e in fitting if not e.data]


def text_area(label: str, key: str, default: str) -> str:
    """Draw a text box whose text is part of the page's address."""
    state.read_url(key, default)
    text = st.text_area(
        label,
        height=96,
        key=key,
        help="Press Ctrl+Enter (⌘+Enter on a Mac) or click elsewhere to see the result. The text "
        "is part of this page's address, so you can share a link to what you see; a text of more "
        f"than {state.LONGEST_IN_URL:,} characters is left out of it.",
        placeholder="Type or paste a text",
        persist_state="session",
    )
    state.write_url(key, default)
    return text or ""


def _use_example() -> None:
    name = st.session_state[state.EXPLORE_EXAMPLE]
    for example in EXAMPLES:
        if example.name == name:
            st.session_state[state.EXPLORE_TEXT] = example.text
            if example.text_pair:
                st.session_state[state.EXPLORE_TEXT_PAIR] = example.text_pair
