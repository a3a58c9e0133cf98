from __future__ import annotations

import pytest

pytest.importorskip("codecarbon")

from budgetformer.energy import measure_energy


def test_one_piece_of_work_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """4e-6 kWh of processor and memory over two runs are 7.2 J each."""
    import codecarbon

    class Data:
        cpu_energy, ram_energy, emissions = 3e-6, 1e-6, 5e-7

    class Counter:
        _mode = "intel_rapl"

    class Tracker:
        final_emissions_data, _hardware = Data(), [Counter()]

        def __init__(self, **settings: object) -> None:
            assert settings["country_iso_code"] == "FRA"

        def start(self) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr(codecarbon, "OfflineEmissionsTracker", Tracker)
    clock = iter([0.0, 1.0, 4.0, 4.0])
    monkeypatch.setattr("budgetformer.energy.time.perf_counter", lambda: next(clock))
    runs: list[int] = []
    found = measure_energy(lambda: runs.append(1), "FRA", min_seconds=2)
    assert len(runs) == 2 and found.seconds == 2
    assert found.energy_j == pytest.approx(7.2)
    assert found.emissions_g == pytest.approx(2.5e-4)
    assert found.source == "measured"
    Counter._mode = "cpu_load"
    clock = iter([0.0, 4.0, 4.0])
    assert measure_energy(lambda: None, "FRA", min_seconds=2).source == "estimated"


def test_the_real_tracker_runs_offline_and_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    found = measure_energy(lambda: sum(range(10_000)), "SEN", min_seconds=0.5)
    assert found.source in ("measured", "estimated") and found.country == "SEN"
    assert found.energy_j > 0 and found.emissions_g > 0 and 0 < found.seconds <= 0.5
    assert capfd.readouterr() == ("", "")


def test_an_unknown_country_is_named() -> None:
    with pytest.raises(ValueError, match="'ATLANTIS'"):
        measure_energy(lambda: None, "ATLANTIS")
