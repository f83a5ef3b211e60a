"""Users' own programs in containers: the same bytes as in namespaces."""

from pathlib import Path

import pytest

from tests.program_laws import programs_agree

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]


def test_plain_programs_send_what_theory_and_our_strategies_say(tmp_path: Path) -> None:
    programs_agree("docker", 3, 1_000_000, tmp_path)
