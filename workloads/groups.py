"""python -m workloads.groups: who averages with whom, how fast that reaches everybody, at what cost."""

import sys

from cluster.spec.consensus import main

if __name__ == "__main__":
    sys.exit(main())
