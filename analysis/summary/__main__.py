"""python -m analysis.summary RUN_FOLDER"""

import sys

from analysis.summary.command import main

sys.exit(main())
