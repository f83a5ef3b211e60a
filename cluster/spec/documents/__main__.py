"""python3 -m cluster.spec.documents docs/run-folder.md: rewrite the tables of the page"""

import sys
from pathlib import Path

from cluster.spec.documents.describe import rewrite

for path in map(Path, sys.argv[1:]):
    path.write_text(rewrite(path.read_text()))
