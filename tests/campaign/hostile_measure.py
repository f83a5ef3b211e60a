"""./measure.sh with a hostile node: python -m tests.campaign.hostile_measure CASE FLAGS...

Only the test's own process is changed: namespaces start another entry module, and the Compose
document that the engine adds mounts and starts it. The last line on standard error is the most
memory that this process had, in MB.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from cluster import measure
from cluster.containers import cluster as containers
from cluster.containers import compose_file
from cluster.namespaces import cluster as namespaces
from tests.peak_memory import peak_bytes

NODE = Path(__file__).with_name("hostile_node.py")
IN_CONTAINER = "/hostile/node.py"


def recording_document(writers: Sequence[str], node_folders: Path) -> compose_file.Service:
    made = compose_file.recording_document(writers, node_folders)
    service = made["services"]["node1"]
    mounted = {"type": "bind", "source": str(NODE), "target": IN_CONTAINER, "read_only": True}
    service["volumes"].append(mounted)
    service["command"] = ["python", IN_CONTAINER]
    service["environment"] |= {"GRADWIRE_HOSTILE": sys.argv[1], "PYTHONPATH": "/app"}
    return made


def main() -> int:
    os.environ["GRADWIRE_HOSTILE"] = sys.argv[1]
    with (
        patch.object(namespaces, "ENTRY", "tests.campaign.hostile_node"),
        patch.object(containers, "recording_document", recording_document),
    ):
        code = measure.main(sys.argv[2:])
    print(peak_bytes() / 1e6, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
