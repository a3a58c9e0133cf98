"""Texts whose need for heads is known: a data set made by a rule that anyone can check.

A text is a walk past animals and plants with number words in between:

    fern two owl fox oak one hare pine

A number word claims that there is an animal so many words further on: "two" points at "fox", "one"
at "hare". The text is "true" when every claim holds and "false" when exactly one does not. One
attention head can look a fixed number of words ahead, but in a single layer it cannot look two
different distances ahead: its query knows the number word and its own position only as a sum. So
the need of a text is the number of different number words in it.

The number of animals in a text is drawn without regard to the label, so counting words does not
help.
"""

from __future__ import annotations

import random

from budgetformer.data import Dataset, Examples

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven")
ANIMALS = (
    "ant",
    "bear",
    "crow",
    "deer",
    "fox",
    "goat",
    "hare",
    "lynx",
    "mole",
    "owl",
    "toad",
    "wolf",
)
PLANTS = (
    "ash",
    "birch",
    "clover",
    "elm",
    "fern",
    "hazel",
    "ivy",
    "moss",
    "oak",
    "pine",
    "reed",
    "yew",
)
NEEDS = (1, 2, 4, 7)
LENGTHS = (24, 30)
SIZES = {"train": 40_000, "validation": 1_000, "test": 4_000}
LABELS = ("false", "true")


def load_known_need() -> Dataset:
    """Make the data set; the splits come from seeds of their own, so no text is in two of them."""
    splits, seen = {}, set[str]()
    for seed, (name, size) in enumerate(reversed(SIZES.items())):
        generator = random.Random(seed)
        rows: dict[str, int] = {}
        while len(rows) < size:
            label = generator.randrange(2)
            text = make_text(generator.choice(NEEDS), bool(label), generator)
            if text not in seen:
                rows[text] = label
        seen.update(rows)
        splits[name] = Examples(tuple(rows), tuple(rows.values()))
    return Dataset("known-need", LABELS, splits)


def make_text(need: int, truth: bool, generator: random.Random) -> str:
    """Write a text of this need in which every claim holds, or in which exactly one fails."""
    length = generator.randint(*LENGTHS)
    claims = _place_claims(generator.sample(range(1, len(NUMBERS) + 1), need), length, generator)
    targets = list(claims.values())
    fails = {generator.choice(targets)} if not truth else set()
    free = [i for i in range(length) if i not in claims and i not in targets]
    # The total is drawn first, then filled up: it says nothing about the label.
    n_animals = need + sum(generator.randrange(2) for _ in range(len(free) - 1))
    kept = set(targets) - fails
    animals = kept | set(generator.sample(free, n_animals - len(kept)))
    words = []
    for position in range(length):
        if position in claims:
            words.append(NUMBERS[claims[position] - position - 1])
        else:
            words.append(generator.choice(ANIMALS if position in animals else PLANTS))
    return " ".join(words)


def need(text: str) -> int:
    """Return how many heads a text needs: its different number words."""
    return len(set(text.split()) & set(NUMBERS))


def _place_claims(distances: list[int], length: int, generator: random.Random) -> dict[int, int]:
    """Choose positions for number words so that their targets are different and no numbers."""
    while True:
        places = generator.sample(range(length - 1), len(distances))
        claims = {place: place + d for place, d in zip(places, distances, strict=True)}
        targets = set(claims.values())
        if max(targets) < length and len(targets) == len(claims) and not targets & set(claims):
            return claims
