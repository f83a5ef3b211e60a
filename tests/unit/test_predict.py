"""python3 -m analysis.predict: a table, what is outside of the fit, and mistakes in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analysis.predict.command import main

PROJECT = Path(__file__).resolve().parents[2]
RUNS = PROJECT / "tests" / "data" / "runs"
SPEC = min(RUNS.rglob("spec.json"))
NEED = ["need", "--workers", "4", "--compute", "50ms", "--model-bytes", "400k"]
ASK = ["--workers", "1024", "--link", "10gbit", "--model-bytes", "1.4G"]


def test_all_strategies_are_listed_fastest_first_with_errors_and_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*ASK, "--strategy", "all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = lines[3 : lines.index("", 3)]
    assert {row.split()[0] for row in rows} >= {
        "allreduce",
        "parameter-server",
        "pairwise",
        "local-sgd",
    }
    text = "\n".join(lines)
    assert "not fitted to: step median" in text
    assert text.count("far outside") == 1
    assert "on links of 10gbit, by workers" in text


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """As `| head -1` does; and it was long gone before anything was written."""
    command = [sys.executable, "-m", "analysis.predict", *ASK, "--strategy", "allreduce"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=PROJECT, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_within_the_fit_nothing_is_said_to_be_outside(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workers", "4", "--link", "100mbit", "--model-bytes", "1M"]) == 0
    assert "outside" not in capsys.readouterr().out.partition("fastest on links")[0]


def test_links_beyond_what_can_be_emulated_can_be_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ask = ["--workers", "8", "--model-bytes", "1G", "--strategy", "allreduce", "--compute", "50ms"]
    assert main([*ask, "--link", "100gbit/1ms"]) == 0
    assert "links of 100gbit/1ms" in capsys.readouterr().out


def test_of_all_strategies_those_without_the_codec_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        main(["--workers", "4", "--link", "1gbit", "--model-bytes", "1M", "--compress", "2bit"])
        == 0
    )
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "do not take" in line]
    assert "pairwise" in line
    assert "allgather" not in line


def test_a_model_is_asked_which_link_it_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "need.html"
    ask = ["--strategy", "allreduce", "--local-steps", "1,8", "--compress", "none,int8"]
    assert main([*NEED, *ask, "--link", "100mbit", "--figure", str(page)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split("  ")[0] for line in lines if line.startswith("allreduce")]
    steps = ["allreduce", "allreduce, 8 local steps"]
    assert rows == [label + codec for label in steps for codec in ("", ", int8")]
    assert "at 100 Mbit/s, the shortest step first" in lines
    assert page.stat().st_size > 10**6


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "required"),
        (["--workers", "1", *ASK[2:]], "--workers must be between 2 and"),
        ([*ASK, "--strategy", "gossip"], "unknown strategy 'gossip'; there is: all, allreduce"),
        ([*ASK[:2], "--link", "fast", *ASK[4:]], "fast"),
        ([*ASK[:2], "--link", "100mbit/1ms/1%", *ASK[4:]], "has loss, which is not modelled"),
        ([*ASK[:2], "--link", "10gbit/1ms/1%", *ASK[4:]], "has loss, which is not modelled"),
        ([*ASK[:4], "--model-bytes", "0"], "whole number of bytes"),
        ([*ASK, "--compute", "5"], "must end in us, ms, s"),
        ([*ASK, "--passes", "0"], "--passes must be between 1 and"),
        ([*ASK, "--fit", "nowhere.json"], "cannot read nowhere.json"),
        ([*ASK, "--fit", str(SPEC)], f"{SPEC} holds no fitted costs"),
        ([*ASK, "--straggler", "1024:0.5"], "--straggler: a rank must be between 0 and 1,023"),
        ([*ASK, "--compress", "zip"], "unknown codec 'zip'"),
        ([*ASK, "--compress", "int8", "--strategy", "pairwise"], "int8 is not for pairwise"),
        ([*ASK, "--straggler", "1:0.5"], "--straggler changes computing: add --compute"),
        ([*NEED, "--local-steps", "8,x"], "--local-steps takes whole numbers, such as 1,8,64"),
        ([*NEED, "--compress", "int8", "--strategy", "sgp"], "int8 is not for sgp"),
        ([*NEED[:3], "--compute", "0s", *NEED[5:]], "a computing time above 0"),
        (["fit", "nowhere"], "no such folder: nowhere"),
        (["fit", str(RUNS), "--held-out", "nowhere"], "no such folder: nowhere"),
        (["fit", str(PROJECT / "docs")], "not enough in"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]


def test_a_fit_to_runs_can_be_asked_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "fitted.json"
    assert main(["fit", str(RUNS), "--output", str(output)]) == 0
    assert "a message takes" in capsys.readouterr().out
    ask = ["--workers", "3", "--link", "50mbit", "--model-bytes", "200k", "--fit", str(output)]
    assert main([*ask, "--strategy", "allreduce,ring"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("allreduce ") for line in lines)
