#!/usr/bin/env bash
# Train on a cluster of N nodes on this machine, count every byte, print the table.
#
#   ./measure.sh --workers 6 --passes 2      see ./measure.sh --help for all options
#
# Needs Linux (or Docker) and Python 3.11. Works from any folder. The first call sets up a private
# environment in .venv (a minute or two); a run with the defaults takes less than a minute.
set -euo pipefail
here=$(CDPATH="" cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
. "$here/cluster/environment.sh" run
PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} exec "$python" -P -m cluster.measure "$@"
