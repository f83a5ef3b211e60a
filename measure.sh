#!/usr/bin/env bash
# Train on a cluster of N nodes on this machine, count every byte, print the table, write the report.
#
#   ./measure.sh --workers 6 --passes 2      ./measure.sh --help has examples and options
#
# Needs Python 3.11 or newer, and Linux or Docker. Works from any folder. The first call makes a private
# environment in .venv (a minute or two); a run with the defaults takes less than a minute.
set -euo pipefail
for output in 1 2; do # one that is closed, as by 2>&-, would fail every command that writes to it
    { : >&"$output"; } 2>/dev/null || eval "exec $output>/dev/null"
done
here=$(CDPATH="" cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
. "$here/cluster/environment.sh" run
PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH} exec "$python" -P -m cluster.measure "$@"
