"""The same text alone, padded, and in a batch: is the answer the same?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.components.downloads import csv_button, file_name
from app.components.records import Picked
from app.components.request import on_request
from app.components.tables import source, table
from budgetformer.checkpoint import Checkpoint
from budgetformer.company import Company, in_company
from budgetformer.slices import Mask

MOST_TEXTS = 24
TOLERANCE = 1e-4
"""The sums of a batch run in another order, so single precision differs in the last digits."""
SEED = 0


def section(model: Checkpoint, picked: Picked, mask: Mask, key: str) -> None:
    """Draw the check of a sample of the slice, on request."""
    scored = picked.scored
    st.subheader(
        "Alone, padded, in a batch",
        help="A model reads many texts at once by padding the short ones. If padding took part in "
        "the routing, a text’s heads would hang on its company, and on its length.",
    )
    st.markdown(
        f"Up to {MOST_TEXTS} texts of the slice, drawn at random, run three times: **alone**, with "
        "**padding** after them, and **in one batch** with each other. Heads and s must stay the "
        "same."
    )
    if scored.texts is None:
        st.caption("It needs the texts, which are not at hand.")
        return
    have = np.array([text is not None for text in scored.texts]) & mask
    positions = np.flatnonzero(have)
    if not len(positions):
        st.caption("No text of the slice is at hand.")
        return
    generator = np.random.default_rng(SEED)
    chosen = np.sort(generator.permutation(positions)[:MOST_TEXTS])
    texts = [scored.texts[i] or "" for i in chosen]
    pairs = None
    if scored.text_pairs is not None:
        pairs = [scored.text_pairs[i] or "" for i in chosen]
    found = on_request(
        f"{key}_company",
        (picked.key, tuple(chosen.tolist())),
        f"Run {len(chosen)} texts three times",
        lambda _: in_company(model, texts, pairs),
        "A few seconds.",
    )
    if found is None:
        return
    _result(found)
    csv_button(
        lambda: _frame(found, scored.rows[chosen] + 1),
        file_name("company", scored.source.model), f"{key}_company_csv",
    )  # fmt: skip


def _result(found: Company) -> None:
    n = len(found.n_tokens)
    worst = max(float(d.max()) for d in found.probability_difference.values())
    all_same = all(same.all() for same in found.same_heads.values())
    if all_same and worst < TOLERANCE:
        st.markdown(
            f":material/check_circle: **The same.** All {n} texts ran the same heads in all three "
            f"ways, and no probability differs by more than {worst:.1e}: the last digits of single "
            "precision, since a batch adds up in another order."
        )
    else:
        n_other = int(sum((~same).sum() for same in found.same_heads.values()))
        st.markdown(
            f":orange[:material/warning: **Not the same.**] {n_other} of {2 * n} runs in company "
            f"used other heads than alone; probabilities differ by up to {worst:.1e}. Where s·H "
            "lies on a whole number, the last digit decides about a head."
        )
    table(
        ("Against alone", "Padding, tokens", "Same heads", "Largest Δs", "Largest Δp"),
        [
            (
                words, f"{found.padding[name].min():,} to {found.padding[name].max():,}",
                f"{int(found.same_heads[name].sum())} of {n}",
                f"{found.budget_difference[name].max():.1e}",
                f"{found.probability_difference[name].max():.1e}",
            )
            for name, words in (("padded", "padded"), ("batch", "in one batch"))
        ],
    )  # fmt: skip
    st.html(
        f'<p class="bf-small">Texts of {found.n_tokens.min():,} to {found.n_tokens.max():,} '
        f"tokens. {source('measured here')}</p>"
    )


def _frame(found: Company, rows: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame({"row": rows, "tokens": found.n_tokens})
    for name in found.padding:
        table[f"{name} padding"] = found.padding[name]
        table[f"{name} same heads"] = found.same_heads[name]
        table[f"{name} max budget difference"] = found.budget_difference[name]
        table[f"{name} max probability difference"] = found.probability_difference[name]
    return table
