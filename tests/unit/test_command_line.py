"""Every program's command line: a mistake is one line with what was probably meant, exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.flags import as_typed
from cluster.spec.command_line import Parser, argument
from cluster.spec.errors import LONGEST_LINE, SpecError, one_of
from cluster.spec.quantities import parse_time

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "cluster.measure": ["--worker", "3"],
    "analysis.theory": ["--workers", "2", "--model-bytes", "1k", "--compression", "fp16"],
    "analysis.predict": ["--workers", "2", "--link", "1gbit", "--model-bytes", "4.5"],
    "analysis.summary": ["--folder", "x"],
    "analysis.network_report": ["--targte", "0.5"],
    "analysis.export": ["--to", "tensorbord"],
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


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [(">&-", 0, ""), ("2>&-", 0, ""), ("> /dev/full", 1, "standard output: No space left")],
)
def test_closed_output_is_no_error_and_a_full_disk_is_one_line(
    redirection: str, code: int, said: str
) -> None:
    command = f"{sys.executable} -m workloads.groups --workers 4 --passes 1 {redirection}"
    answer = subprocess.run(["bash", "-c", command], cwd=PROJECT, capture_output=True, text=True)
    assert answer.returncode == code
    assert said in answer.stderr
    assert len(answer.stderr.splitlines()) == bool(said)


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


def test_whatever_was_given_a_refusal_is_one_line_of_bounded_length() -> None:
    refusal = str(SpecError("name 'a\nb\x1b[31m\udcff' " + "9" * 10_000 + " is no name"))
    assert refusal.isprintable()
    assert len(refusal) <= LONGEST_LINE
    assert refusal.startswith("name 'a\\nb\\x1b")
    assert refusal.endswith(" 999999999... (10000 digits) is no name")


@pytest.mark.parametrize(
    ("refusal", "typed"),
    [
        ("total_memory 6g is 900m for each", "--total-memory 6g is 900m for each"),
        ("lr_rule sqrt: give batch_size", "--lr-rule sqrt: give --batch-size"),
        ("workers must be 'batch_size'", "--workers must be 'batch_size'"),
        ("that makes 4 workers", "that makes 4 workers"),
    ],
)
def test_options_are_told_as_they_are_typed(refusal: str, typed: str) -> None:
    assert as_typed(SpecError(refusal)) == typed
