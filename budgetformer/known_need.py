"""Texts whose need for heads is known: a data set made by a rule that anyone can check.

A text is a walk past animals and plants with five number words in between:

    fern two owl fox oak one hare pine …

A number word claims that there is an animal so many words further on: "two" points at "fox", "one"
at "hare". The text is "true" when every claim holds, and "false" when the claims of one number word
all fail. One attention head can look a fixed number of words ahead from everywhere at once; to look
two different distances ahead at once takes two heads, or one that does both less sharply. So the
need of a text is the number of different number words in it: 1 or 5.

That is checked on the trained model that comes with this data: with one head it is right on the
texts that need one and often wrong on those that need five, with each further head it gains on the
latter only. The rule takes many texts to learn: from 20,000 instead of 60,000 the model was right
on 88 % of the validation texts that need five, instead of 99 %.

The number of animals in a text is drawn without regard to the label, so counting words does not
help.
"""

from __future__ import annotations

import random

from budgetformer.data import Dataset, Examples

NAME = "known-need"
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
NEEDS = (1, 5)
N_CLAIMS = 5
LENGTHS = (15, 17)
SIZES = {"train": 60_000, "validation": 1_000, "test": 4_000}
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
    return Dataset(NAME, LABELS, splits)


def make_text(need: int, truth: bool, generator: random.Random) -> str:
    """Write a text of this need in which every claim holds, or in which one number word's fail."""
    length = generator.randint(*LENGTHS)
    distances = generator.sample(range(1, len(NUMBERS) + 1), need)
    claims = _place_claims([distances[i % need] for i in range(N_CLAIMS)], length, generator)
    targets = {place + distance for place, distance in claims.items()}
    failing = 0 if truth else generator.choice(distances)
    fails = {place + distance for place, distance in claims.items() if distance == failing}
    free = [i for i in range(length) if i not in claims and i not in targets]
    # The total is drawn first, then filled up: it says nothing about the label.
    most_fails = -(-N_CLAIMS // need)
    n_animals = N_CLAIMS + sum(generator.randrange(2) for _ in range(len(free) - most_fails))
    kept = targets - fails
    animals = kept | set(generator.sample(free, n_animals - len(kept)))
    words = []
    for place in range(length):
        if place in claims:
            words.append(NUMBERS[claims[place] - 1])
        else:
            words.append(generator.choice(ANIMALS if place in animals else PLANTS))
    return " ".join(words)


def need(text: str) -> int:
    """Return how many heads a text needs: its different number words."""
    return len(set(text.split()) & set(NUMBERS))


def _place_claims(distances: list[int], length: int, generator: random.Random) -> dict[int, int]:
    """Give each distance a place, so that all targets are different and no number words."""
    claims: dict[int, int] = {}
    free = set(range(length))
    for distance in distances:
        places = [place for place in free if place + distance in free]
        if not places:
            return _place_claims(distances, length, generator)
        place = generator.choice(places)
        claims[place] = distance
        free -= {place, place + distance}
    return claims
