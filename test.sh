#!/usr/bin/env bash
# All checks: shellcheck, ruff, mypy, then the tests on real namespaces, containers and processes.
#
#   ./test.sh                    everything; Docker's tests are skipped where no engine answers
#   ./test.sh tests/unit         a part: arguments go to pytest
#   GRADWIRE_REQUIRE_DOCKER=1    a skipped Docker test is a failure (as in CI)
#
# Works from any folder; the first call sets up .venv. Takes about ten minutes on two cores with a warm
# image cache, about two for tests/unit.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
. cluster/environment.sh test
bin=$(dirname "$python")

mapfile -t scripts < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)
"$bin/shellcheck" --external-sources --exclude=SC1091 "${scripts[@]}"
"$bin/ruff" format --check --quiet .
"$bin/ruff" check --quiet .
"$bin/mypy"
exec "$python" -m pytest "$@"
