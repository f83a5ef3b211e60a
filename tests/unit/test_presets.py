"""Every preset is a valid set of runs, and flags beside it go for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import presets
from cluster.flags import make_experiments, make_parser
from cluster.spec import Experiment, SpecError


def experiments(flags: str) -> list[Experiment]:
    return make_experiments(make_parser().parse_args(flags.split()), "netns")


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_a_set_of_valid_runs_with_a_title(name: str) -> None:
    assert len(experiments(f"--preset {name}")) > 1
    assert presets.title(name)


def test_frugal_compares_pairs_that_rarely_meet_with_an_all_reduce() -> None:
    found = [(e.strategy, e.passes, e.local_steps, e.seed) for e in experiments("--preset frugal")]
    assert found == [("allreduce", None, 1, seed) for seed in (1, 2, 3)] + [
        ("pairwise", 1, 8, seed) for seed in (1, 2, 3)
    ]


def test_flags_beside_a_preset_go_for_all_of_its_runs() -> None:
    found = experiments("--preset frugal --epochs 2 --workers 4 --repeat 1")
    assert [(e.workers, e.epochs, e.seed) for e in found] == [(4, 2, 1), (4, 2, 1)]


def test_an_unknown_preset_is_told_what_exists() -> None:
    with pytest.raises(SpecError, match=r"unknown preset 'free'; there is: .*frugal"):
        experiments("--preset free")


def test_a_knob_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.toml").write_text(
        'title = "odd"\n[[runs]]\nworkers = [2, 3]\ncolour = "red"\n'
    )
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    with pytest.raises(SpecError, match="unknown knob colour"):
        experiments("--preset odd")


def test_a_list_in_a_preset_is_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.toml").write_text('title = "some"\n[[runs]]\nworkers = [2, 3]\nlr = 0.25\n')
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    assert [(e.workers, e.lr) for e in experiments("--preset some")] == [(2, 0.25), (3, 0.25)]
