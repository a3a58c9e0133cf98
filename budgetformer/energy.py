"""Energy and carbon dioxide of a piece of work, through codecarbon's offline tracker.

"measured" means that the processor's own counter (RAPL and its like) was read. Where there is none,
as on most virtual machines, codecarbon multiplies load by the processor's rated power: "estimated".
The tracker watches the whole machine: other work at the same time counts too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from budgetformer.config import read_json

JOULES_PER_KWH = 3.6e6
COUNTERS = {"intel_rapl", "intel_power_gadget", "windows_emi"}


@dataclass(frozen=True)
class Energy:
    """What a piece of work took."""

    seconds: float
    energy_j: float
    """Processor and memory, in joules."""
    emissions_g: float
    """CO₂ equivalent in grams at the country's mean carbon intensity."""
    country: str
    """ISO code of the country whose electricity was assumed."""
    source: Literal["measured", "estimated"]


@dataclass(frozen=True)
class Grid:
    """A country's electricity."""

    country: str
    """ISO code of three letters."""
    name: str
    """In English."""
    carbon_g_per_kwh: float
    """Grams of CO₂ equivalent a kilowatt-hour, mean over a year."""
    year: int | None
    """The year that this is about, where the source says it."""


def grids() -> dict[str, Grid]:
    """Return the countries whose electricity codecarbon knows, by ISO code, sorted by name.

    Raises:
        ValueError: if codecarbon is missing.
    """
    # Importing codecarbon takes seconds; its table is a file.
    package = find_spec("codecarbon")
    if package is None or package.origin is None:
        raise ValueError("energy needs codecarbon: pip install codecarbon")
    mixes = read_json(Path(package.origin).parent / "data/private_infra/global_energy_mix.json")
    found = [
        Grid(
            code,
            str(mix["country_name"]),
            float(mix["carbon_intensity"]),
            int(mix["year"]) if mix.get("year") else None,
        )
        for code, mix in mixes.items()
        if mix.get("carbon_intensity") is not None
    ]
    return {grid.country: grid for grid in sorted(found, key=lambda grid: grid.name)}


def measure_energy(work: Callable[[], object], country: str, min_seconds: float = 5.0) -> Energy:
    """Repeat work for some seconds and return what one time of it took.

    Args:
        work: what to measure.
        country: three-letter ISO code, such as "FRA".
        min_seconds: how long to repeat; counters say little about less than a few seconds.

    Raises:
        ValueError: if codecarbon is missing or does not know the country.
    """
    try:
        from codecarbon import OfflineEmissionsTracker
        from codecarbon.input import DataSource
    except ImportError as error:
        raise ValueError("energy needs codecarbon: pip install codecarbon") from error
    known = DataSource().get_global_energy_mix_data()  # type: ignore[no-untyped-call]
    if country not in known:
        raise ValueError(f"codecarbon knows no country {country!r}; write it as FRA, SEN, USA")
    logging.getLogger("codecarbon").setLevel(logging.ERROR)  # it starts before log_level counts
    tracker = OfflineEmissionsTracker(
        country_iso_code=country,
        measure_power_secs=1,
        output_methods=[],
        log_level="error",
        allow_multiple_runs=True,
    )
    tracker.start()
    start, n = time.perf_counter(), 0
    try:
        while n == 0 or time.perf_counter() - start < min_seconds:
            work()
            n += 1
        seconds = time.perf_counter() - start
    finally:
        tracker.stop()
    found = tracker.final_emissions_data
    modes = {getattr(part, "_mode", None) for part in tracker._hardware}
    return Energy(
        seconds=seconds / n,
        energy_j=(found.cpu_energy + found.ram_energy) * JOULES_PER_KWH / n,
        emissions_g=found.emissions * 1e3 / n,
        country=country,
        source="measured" if modes & COUNTERS else "estimated",
    )
