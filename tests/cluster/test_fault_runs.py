"""Faults of real namespace nodes, by the flags that a person types."""

from __future__ import annotations

from pathlib import Path

from tests import fault_laws


def test_faults_that_pass_change_no_byte(tmp_path: Path) -> None:
    fault_laws.faults_that_pass_change_no_byte("netns", tmp_path)


def test_a_kill_is_inside_its_exchange(tmp_path: Path) -> None:
    fault_laws.a_kill_is_inside_its_exchange("netns", tmp_path)
