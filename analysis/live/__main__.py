"""python3 -m analysis.live SESSION_FOLDER: writes the page to standard output, for cluster/live."""

import sys
from pathlib import Path

from analysis.live.page import live_page
from cluster.spec.documents.session_plan import SessionFolder

sys.stdout.buffer.write(live_page(SessionFolder(Path(sys.argv[1]))).encode())
