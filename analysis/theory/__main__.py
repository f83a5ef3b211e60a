"""python -m analysis.theory"""

import sys

from analysis.theory.table import main

sys.exit(main())
