"""Forked processes: each run has its own, and with --on-failure continue each generation."""

import os
import sys
import traceback
from collections.abc import Callable

from workloads.program.agent import ProgramFailed
from workloads.stacks import StackChannel


def fork_child(work: Callable[[], None], stacks: StackChannel) -> int:
    """Call a function in a forked process; its number. Its exit code is 0 or 1."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        stacks.serve()
        work()
        code = 0
    except ProgramFailed:
        pass  # it has said why
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
