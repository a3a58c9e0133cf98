"""Compute, energy and CO₂ of any shape, against sums worked out by hand."""

from __future__ import annotations

import pytest

from budgetformer.calculator import Load, year
from budgetformer.energy import grids
from budgetformer.timing import bench_shape


def test_the_papers_shape_by_hand() -> None:
    """L 4, H 8, D 768, D_ff 3072, T 512; 2 FLOPs for each multiply-add."""
    projections = 8 * 512 * 768**2  # four matrices of D × D
    core = 4 * 512**2 * 768
    feed_forward = 4 * 512 * 768 * 3072
    router, classifier = 2 * (768 * 32 + 32 + 768 * 8), 2 * 768 * 2
    dense = 4 * (projections + core + feed_forward) + classifier
    load = Load(4, 8, 768, 3072, 512, heads_share=0.25, texts_a_day=1)
    assert load.dense_flops == dense
    quarter = 4 * ((projections + core) / 4 + feed_forward + router) + classifier
    assert load.flops == pytest.approx(quarter)
    one_dense, one_sparse = load.layer_flops()
    assert one_dense == projections + core + feed_forward + classifier
    # A quarter of 8 heads is 2, whole.
    assert load.k == 2
    assert one_sparse == (projections + core) / 4 + feed_forward + router + classifier


def test_a_share_between_whole_heads_lies_between_them() -> None:
    def cost(share: float) -> float:
        return Load(2, 4, 64, 128, 100, share, 1).flops

    assert cost(0.375) == pytest.approx((cost(0.25) + cost(0.5)) / 2)
    assert Load(2, 4, 64, 128, 100, 0.01, 1).k == 1


def test_a_year_by_hand() -> None:
    """36 ms × 100,000 a day × 365 = 1,314,000 s; at 40 W 52.56 MJ = 14.6 kWh."""
    found = year(0.036, 100_000, 40, 500)
    assert found.seconds == pytest.approx(1_314_000)
    assert found.kwh == pytest.approx(14.6)
    assert found.carbon_kg == pytest.approx(7.3)
    assert year(0.036, 0, 40, 500).kwh == 0


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"d_model": 100}, r"multiple of n_heads \(8\)"),
        ({"n_layers": 0}, "n_layers must be in"),
        ({"n_tokens": 10**7}, "n_tokens must be in"),
        ({"heads_share": 0.0}, "share of heads"),
        ({"heads_share": 1.01}, "share of heads"),
        ({"texts_a_day": -1}, "texts a day"),
    ],
)
def test_bad_input_is_named(changes: dict[str, float], wanted: str) -> None:
    good = {
        "n_layers": 2, "n_heads": 8, "d_model": 128, "d_ff": 512, "n_tokens": 64,
        "heads_share": 0.5, "texts_a_day": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match=wanted):
        Load(**{**good, **changes})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="watts"):
        year(1, 1, -5, 1)


def test_a_shape_is_timed_and_an_absurd_one_refused() -> None:
    row = bench_shape(2, 8, 16, 12, 1, seconds=0)
    assert (row.batch, row.length, row.n_heads, row.k) == (1, 12, 2, 1)
    assert row.dense_ms > 0 and row.sparse_ms > 0
    with pytest.raises(ValueError, match="too large to be timed"):
        bench_shape(8, 8192, 32768, 4096, 1)
    with pytest.raises(ValueError, match="k must be"):
        bench_shape(2, 8, 16, 12, 3)


def test_grids_are_what_codecarbon_charges() -> None:
    pytest.importorskip("codecarbon")
    from codecarbon.core.emissions import Emissions
    from codecarbon.core.units import Energy
    from codecarbon.external.geography import GeoMetadata
    from codecarbon.input import DataSource

    found, source = grids(), DataSource()
    assert set(found) == set(source.get_global_energy_mix_data())
    emissions = Emissions(source)
    for code, grid in found.items():
        kilograms = emissions.get_country_emissions(Energy(1.0), GeoMetadata(code))
        assert grid.carbon_g_per_kwh == pytest.approx(1e3 * kilograms)
    assert (found["FRA"].name, found["SEN"].name) == ("France", "Senegal")
    assert list(found) == sorted(found, key=lambda code: found[code].name)
