"""python -m workloads.hosts LAUNCHER REQUEST: see driver.py."""

import sys

from workloads.hosts.driver import main

sys.exit(main(*sys.argv[1:]))
