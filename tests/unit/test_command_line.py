"""Every program's command line: a mistake is one line with what was probably meant, exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.spec.command_line import Parser, argument
from cluster.spec.errors import SpecError, one_of
from cluster.spec.quantities import parse_size, parse_time

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


@pytest.mark.parametrize(
    ("text", "size"), [("87160", 87_160), ("87k", 87_000), ("4.5M", 4_500_000), ("1G", 10**9)]
)
def test_a_size_is_a_whole_number_of_bytes_in_powers_of_1000(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["0", "-4k", "4.5", "1K", "k", "", "1e3", "0.0001k", "9" * 400])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_size(text)


@pytest.mark.parametrize(("text", "seconds"), [("20ms", 0.02), ("1.5s", 1.5), ("250us", 0.00025)])
def test_a_time_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


def test_a_refused_argument_is_told_in_the_words_of_its_parser(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = Parser(prog="some")
    parser.add_argument("--compute", type=argument(parse_time))
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--compute", "5"])
    assert "time '5' must end in us, ms, s" in capsys.readouterr().err
