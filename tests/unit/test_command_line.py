"""Every program's command line: a mistake is one line with what was probably meant, exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.spec.command_line import Parser, argument
from cluster.spec.errors import SpecError, one_of
from cluster.spec.quantities import parse_time

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "cluster.measure": ["--worker", "3"],
    "analysis.theory": ["--workers", "2", "--model-bytes", "1k", "--compression", "fp16"],
    "analysis.predict": ["--workers", "2", "--link", "1gbit", "--model-bytes", "4.5"],
    "analysis.summary": ["--folder", "x"],
    "analysis.network_report": ["--targte", "0.5"],
    "workloads.data": ["fetch", "minst"],
    "workloads.groups": ["--workers", "4", "--passes", "one"],
}


@pytest.mark.parametrize("module", PROGRAMS)
def test_a_mistake_is_one_line_and_exit_code_2_in_every_program(module: str) -> None:
    command = [sys.executable, "-m", module, *PROGRAMS[module]]
    answer = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert len(answer.stderr.splitlines()) == 1


def test_output_that_nobody_reads_on_is_no_error() -> None:
    command = f"{sys.executable} -m workloads.groups --workers 300 --passes 3 | head -n 1"
    answer = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=PROJECT, capture_output=True, text=True
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_a_misspelt_flag_or_choice_is_told_what_was_probably_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = Parser(prog="some")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--compress", choices=("none", "fp16"))
    for line, meant in (("--wrokers=3", "--workers"), ("--compress fp61", "fp16")):
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(line.split())
        assert f"did you mean {meant}?" in capsys.readouterr().err


def test_an_unknown_name_says_what_exists_and_what_was_probably_meant() -> None:
    with pytest.raises(SpecError, match=r"there is: ring, allreduce; did you mean allreduce\?"):
        one_of("strategy", "all-reduce", ["ring", "allreduce"])
    with pytest.raises(SpecError, match=r"there is: ring, allreduce$"):
        one_of("strategy", "xyz", ["ring", "allreduce"])


def test_a_refused_argument_is_told_in_the_words_of_its_parser(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = Parser(prog="some")
    parser.add_argument("--compute", type=argument(parse_time))
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--compute", "5"])
    assert "time '5' must end in us, ms, s" in capsys.readouterr().err
