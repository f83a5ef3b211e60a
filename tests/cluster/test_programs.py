"""Users' own programs on namespaces: measured like our training, and their failures named."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.measuring import PROJECT, measure
from tests.program_laws import PROGRAMS, programs_agree

NETNS = ("--engine", "netns")


@pytest.mark.parametrize(("workers", "size"), [(2, 4_000_000), (4, 1_000_000)])
def test_plain_programs_send_what_theory_and_our_strategies_say(
    workers: int, size: int, tmp_path: Path
) -> None:
    programs_agree("netns", workers, size, tmp_path)


def test_a_program_tells_its_steps_and_leaves_its_files_in_the_run_folder(tmp_path: Path) -> None:
    flags = (*NETNS, "--workers", "2", "--nproc-per-node", "2", "--output", str(tmp_path / "runs"))
    measured = measure(*flags, "--program", str(PROGRAMS / "tells.py"))
    assert measured.code == 0, measured.stderr
    (summary,) = measured.summaries
    assert (summary["steps"], summary["accuracy"], summary["loss"]) == (5, 0.5, 0.2)
    assert summary["spec"]["strategy"] == "tells.py"
    assert len(summary["program"]["processes"]) == 4
    run = tmp_path / "runs" / summary["session"] / summary["run"]
    ranks = {(run / "work" / f"node{k}" / "result.txt").read_text()[0] for k in range(2)}
    assert ranks <= set("0123")
    assert "its folder is read-only" in (run / "logs" / "node0.log").read_text()
    assert not (PROGRAMS / "new.txt").exists()
    steps = [
        event["loss"]
        for line in (run / "events" / "node1.jsonl").read_text().splitlines()
        if (event := json.loads(line))["event"] == "step"
    ]
    assert steps == [1 / (k + 1) for k in range(5)]


def test_a_dilated_program_sends_the_same_and_tells_emulated_time(
    cpu_limits: None, tmp_path: Path
) -> None:
    flags = (*NETNS, "--workers", "2", "--link", "100mbit", "--output", str(tmp_path))
    program = f"{PROGRAMS / 'plain_ddp.py'} --size 1000000 --steps 5"
    measured = measure(*flags, "--dilation", "1,2", "--program", program)
    assert measured.code == 0, measured.stderr
    plain, dilated = measured.summaries
    assert [link["target_mbit"] for link in dilated["links"]] == [100, 100]
    seconds = dilated["seconds"]
    assert seconds["wall_s"] == pytest.approx(2 * seconds["total_s"], rel=1e-3)
    sent = [summary["per_step"]["sent_mean_bytes"] for summary in (plain, dilated)]
    assert sent[1] == pytest.approx(sent[0], rel=0.01)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    (script,) = re.findall(
        r"```python\n(import torch\n.*?)```",
        (PROJECT / "docs" / "your-own-program.md").read_text(),
        re.DOTALL,
    )
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "train.py").write_text(script)
    tmp_path.chmod(0o755)
    flags = (*NETNS, "--workers", "3", "--output", str(tmp_path / "runs"))
    measured = measure(*flags, "--program", str(folder / "train.py"))
    assert measured.code == 0, measured.stderr
    (summary,) = measured.summaries
    assert summary["steps"] == 20
    assert f"{summary['per_step']['sent_mean_bytes'] / 1e6:.2f}" == "1.37"


@pytest.mark.parametrize(
    ("program", "node", "words"),
    [
        ("needs_package.py", "node", ("a_package_that_is_not_there", "--requirements FILE")),
        ("ends_early.py", "node1", ("ended on node1", "exit code 0")),
    ],
)
def test_a_failed_program_is_told_with_its_node(
    program: str, node: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    flags = (*NETNS, "--workers", "3", "--output", str(tmp_path / "runs"))
    measured = measure(*flags, "--program", str(PROGRAMS / program))
    assert measured.code == 1
    (summary,) = measured.summaries
    assert node in summary["error"]
    for word in words:
        assert word in summary["error"]
