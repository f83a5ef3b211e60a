#!/usr/bin/env bash
# Run a program in the driver of compose/spark.yml's Spark cluster; returns its exit code.
#
#   docker compose -f compose/spark.yml up --detach
#   cluster/run_in_driver.sh PROGRAM.py [ARGS...]
#
# PROGRAM.py is any Python program with Spark, Horovod and PyTorch. Only this file is copied to the
# driver. The cluster is its default master: SparkSession.builder.getOrCreate() is enough.
# shellcheck disable=SC2016  # single quotes: for the driver's shell
set -euo pipefail

project=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

fail() { printf 'run_in_driver: %s\n' "$2" >&2; exit "$1"; }

in_driver() { docker compose --file "$project/compose/spark.yml" exec -T driver "$@"; }

if [[ $# == 0 || $1 == -* ]]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
program=$1
shift
[[ -f $program && -r $program ]] || fail 2 "there is no program '$program' that can be read"
command -v docker >/dev/null ||
    fail 1 "there is no 'docker' command; on Debian: docker/install_engine.sh as root"
folder=/tmp/programs/$$-$RANDOM
there=$folder/$(basename "$program")

in_driver sh -c 'mkdir -p "$1" && cat >"$2"' sh "$folder" "$there" <"$program" 2>/dev/null ||
    fail 1 "no driver answers; start the cluster: docker compose -f compose/spark.yml up --detach"

# Ending the client does not end the program: it is killed by its process number, from a file.
# shellcheck disable=SC2329  # the traps call it
stop() {
    in_driver sh -c 'kill -TERM "$(cat "$1/pid")"; rm -rf "$1"' sh "$folder" >/dev/null 2>&1 || true
}
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM HUP

code=0
in_driver sh -c 'echo $$ >"$1/pid"; shift; exec python "$@"' sh "$folder" "$there" "$@" <&0 &
wait $! || code=$?
in_driver rm -rf "$folder" || true
exit "$code"
