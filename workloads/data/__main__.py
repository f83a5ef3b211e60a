"""python -m workloads.data fetch|status"""

import sys

from workloads.data.prepare import main

sys.exit(main())
