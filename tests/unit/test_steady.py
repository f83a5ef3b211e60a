"""A process that computes steadily keeps its memory, so later steps take no page faults."""

import subprocess
import sys

FAULTS = """
import resource, sys
import torch
from workloads.steady import compute_steadily

if sys.argv[1] == "steadily":
    compute_steadily()
    assert torch.get_num_threads() == 1
for step in range(30):  # of which the first ones find their place in the heap
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(9_000_000).sum()  # 36 MB, which glibc maps and unmaps each time by itself
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    """Page faults of the last step, in a process of its own."""
    found = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True
    )
    return int(found.stdout)


def test_a_step_of_a_steady_process_takes_no_page_faults_for_what_it_freed() -> None:
    assert _faults("steadily") < 100 < _faults("by itself") / 10
