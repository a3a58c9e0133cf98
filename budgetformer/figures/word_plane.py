"""Words on two axes: what each does to the class, and what it does to the budget."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from budgetformer.figures.style import GRAY, ORANGE, bare_figure, blue

HEIGHT = 440
MOST_LABELS = 14
LONGEST_LABEL = 18
# Labels are placed for a phone, so that they do not touch there either; in pixels.
PHONE_WIDTH, LETTER_WIDTH, LABEL_HEIGHT, POINT_SIZE = 300, 7, 17, 10
CORNERS = (
    (0.0, 1.0, "against it,<br>raise the budget"),
    (1.0, 1.0, "for it,<br>raise the budget"),
    (0.0, 0.0, "against it,<br>lower the budget"),
    (1.0, 0.0, "for it,<br>lower the budget"),
)

Box = tuple[float, float, float, float]


def word_plane(
    words: Sequence[str],
    class_values: Sequence[float],
    budget_values: Sequence[float],
    class_name: str,
) -> go.Figure:
    """Draw a point for each word; the strongest carry their word, all of them on hover.

    Args:
        words: as typed.
        class_values: what each word adds to the class's logit, or to a contrast.
        budget_values: what each word adds to the mean budget s.
        class_name: what the x axis is about, for people.
    """
    x_end = 1.2 * (max(map(abs, class_values), default=0) or 1)
    y_end = 1.25 * (max(map(abs, budget_values), default=0) or 1)
    # A word may hold a sign that plotly reads as HTML.
    shown = [html.escape(word) for word in words]
    points = [(x / x_end, y / y_end) for x, y in zip(class_values, budget_values, strict=True)]
    labels = dict(_placed(words, points))
    figure = bare_figure(HEIGHT)
    figure.add_scatter(
        x=list(class_values),
        y=list(budget_values),
        mode="markers+text",
        name="words",
        customdata=shown,
        text=[html.escape(_short(word)) if i in labels else "" for i, word in enumerate(words)],
        textposition=[labels.get(i, "top center") for i in range(len(words))],
        textfont={"size": 13},
        cliponaxis=False,
        marker={
            "size": POINT_SIZE,
            # As in the coloured text: blue speaks for the class, orange against it.
            "color": [blue(1) if x >= 0 else ORANGE for x in class_values],
            "symbol": ["circle" if x >= 0 else "diamond" for x in class_values],
            "line": {"width": 0},
            "opacity": 0.9,
        },
        hovertemplate="<b>%{customdata}</b><br>class %{x:+.3f}<br>budget s %{y:+.4f}"
        "<extra></extra>",
    )
    figure.update_layout(
        margin={"l": 30, "r": 4, "t": 4, "b": 44},
        annotations=[
            {
                "xref": "paper", "yref": "paper", "x": x, "y": y, "text": text,
                "xanchor": "left" if x == 0 else "right",
                "yanchor": "bottom" if y == 0 else "top",
                "align": "left" if x == 0 else "right",
                "showarrow": False, "opacity": 0.65, "font": {"size": 12},
            }
            for x, y, text in CORNERS
        ],
        shapes=[
            {"type": "line", "x0": -x_end, "x1": x_end, "y0": 0, "y1": 0, "layer": "below",
             "line": {"color": GRAY, "width": 1}},
            {"type": "line", "x0": 0, "x1": 0, "y0": -y_end, "y1": y_end, "layer": "below",
             "line": {"color": GRAY, "width": 1}},
            {"type": "rect", "xref": "paper", "yref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 1,
             "layer": "below", "line": {"color": GRAY, "width": 1}},
        ],
    )  # fmt: skip
    axis = {"ticks": "", "showticklabels": False}
    name = html.escape(_short(class_name, 24))
    figure.update_xaxes(
        range=[-x_end, x_end], title={"text": f"← against · {name} · for →", "standoff": 8}, **axis
    )
    figure.update_yaxes(
        range=[-y_end, y_end], title={"text": "← lower · budget s · raise →", "standoff": 4}, **axis
    )
    return figure


def word_plane_alt(
    words: Sequence[str],
    class_values: Sequence[float],
    budget_values: Sequence[float],
    class_name: str,
) -> str:
    """Say what `word_plane` shows."""
    sides = leanings(words, class_values, budget_values)
    return (
        f"{len(words)} words by what they do to {class_name} and to the mean budget. "
        f"Class rather than budget: {', '.join(sides[0]) or 'none'}. "
        f"Budget rather than class: {', '.join(sides[1]) or 'none'}."
    )


def leanings(
    words: Sequence[str],
    class_values: Sequence[float],
    budget_values: Sequence[float],
    most: int = 3,
) -> tuple[list[str], list[str]]:
    """Name the words that move the class rather than the budget, and the reverse.

    Each axis is measured by its strongest word; the difference of the two shares ranks the words.

    Returns:
        Two lists of at most `most` different words, strongest first.
    """
    x_most = max(map(abs, class_values), default=0) or 1
    y_most = max(map(abs, budget_values), default=0) or 1
    lean = [
        abs(x) / x_most - abs(y) / y_most for x, y in zip(class_values, budget_values, strict=True)
    ]
    order = sorted(range(len(words)), key=lambda i: -lean[i])
    by_class = dict.fromkeys(words[i] for i in order if lean[i] > 0)
    by_budget = dict.fromkeys(words[i] for i in reversed(order) if lean[i] < 0)
    return list(by_class)[:most], list(by_budget)[:most]


def _placed(
    words: Sequence[str], points: Sequence[tuple[float, float]]
) -> Iterator[tuple[int, str]]:
    """Yield the words that get a label, strongest first, and on which side of the point it goes.

    A label that would touch one before it, or leave the plot, is tried on the other sides and
    then left out.
    """
    taken: list[Box] = [_corner(x, y, text) for x, y, text in CORNERS]
    dots = [_dot(*point) for point in points]
    n = 0
    named = [i for i in range(len(words)) if any(map(str.isalnum, words[i]))]
    for i in sorted(named, key=lambda i: -max(map(abs, points[i]))):
        for side, box in _sides(_short(words[i]), *points[i]):
            others = [*taken, *dots[:i], *dots[i + 1 :]]
            if n < MOST_LABELS and not any(_touch(box, other) for other in others):
                taken.append(box)
                n += 1
                yield i, side
                break


def _sides(label: str, x: float, y: float) -> Iterator[tuple[str, Box]]:
    """Boxes of a label at a point, in pixels of a phone's plot, that lie inside it."""
    middle_x, middle_y = _pixel(x, y)
    width, far = LETTER_WIDTH * len(label), POINT_SIZE / 2 + 2
    across = (middle_x - width / 2, middle_x + width / 2)
    along = (middle_y - LABEL_HEIGHT / 2, middle_y + LABEL_HEIGHT / 2)
    for side, (x0, x1), (y0, y1) in (
        ("top center", across, (middle_y + far, middle_y + far + LABEL_HEIGHT)),
        ("bottom center", across, (middle_y - far - LABEL_HEIGHT, middle_y - far)),
        ("middle right", (middle_x + far, middle_x + far + width), along),
        ("middle left", (middle_x - far - width, middle_x - far), along),
    ):
        if x0 >= 0 and x1 <= PHONE_WIDTH and y0 >= 0 and y1 <= HEIGHT:
            yield side, (x0, y0, x1, y1)


def _dot(x: float, y: float) -> Box:
    """A point without its rim: a label may come close to it."""
    middle_x, middle_y = _pixel(x, y)
    half = POINT_SIZE / 2 - 1
    return middle_x - half, middle_y - half, middle_x + half, middle_y + half


def _pixel(x: float, y: float) -> tuple[float, float]:
    return (1 + x) / 2 * PHONE_WIDTH, (1 + y) / 2 * HEIGHT


def _corner(x: float, y: float, text: str) -> Box:
    lines = text.split("<br>")
    width, height = 6.5 * max(map(len, lines)), 16.0 * len(lines)
    left, low = x * (PHONE_WIDTH - width), y * (HEIGHT - height)
    return left, low, left + width, low + height


def _touch(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _short(word: str, longest: int = LONGEST_LABEL) -> str:
    return word if len(word) <= longest else word[: longest - 1] + "…"
