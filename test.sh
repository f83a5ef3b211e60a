#!/usr/bin/env bash
# All checks: shellcheck, ruff, mypy, then the tests on real namespaces, containers and processes.
#
#   ./test.sh                    everything; Docker tests are skipped where no engine answers
#   ./test.sh tests/unit         a part: arguments go to pytest
#   ./test.sh --soak             the long form of the campaigns alone (hours)
#   GRADWIRE_REQUIRE_DOCKER=1    a skipped Docker test is a failure (as in CI)
#   GRADWIRE_REQUIRE_HOROVOD=1   the same for tests that need Horovod or Spark on this machine
#   GRADWIRE_REQUIRE_HOSTS=1     the same for tests that need Slurm or Ray
#
# Works from any folder. The first call makes .venv and compiles Horovod (4 minutes, once). On two cores
# and with a warm image cache everything takes about 13 minutes, tests/unit about two. Tests run three at a
# time; those that measure times or rates run afterwards, beside each other only.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
. cluster/environment.sh test
bash cluster/environment.sh spark || {
    [[ ${GRADWIRE_REQUIRE_HOROVOD:-} != 1 ]] || exit 1
    echo "test: Horovod is not available; tests that need it are skipped" >&2
}
{ bash cluster/environment.sh ray && tests/labs/get_slurm.sh; } || {
    [[ ${GRADWIRE_REQUIRE_HOSTS:-} != 1 ]] || exit 1
    echo "test: Ray or Slurm is not available; tests that need it are skipped" >&2
}
bin=$(dirname "$python")

mapfile -t scripts < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
"$bin/shellcheck" --external-sources --exclude=SC1091 "${scripts[@]}"
"$bin/ruff" format --check --quiet .
"$bin/ruff" check --quiet .
if [[ ${1:-} == --soak ]]; then
    exec "$python" -m pytest -m soak --timeout 7200 --durations 20 "${@:2}"
fi
if [[ $# -gt 0 ]]; then
    "$bin/mypy"
    exec "$python" -m pytest "$@"
fi
"$bin/mypy" & # while the tests run, which often wait
types=$!
"$python" -m pytest -n 3 --dist loadgroup -m "not timed" --durations 20
wait "$types"
exec "$python" -m pytest -n 2 --dist loadgroup -m timed --durations 10
