#!/usr/bin/env bash
# Build one target of docker/Dockerfile, from any folder.
#
#   docker/build_image.sh TARGET [TAG...]
#   docker/build_image.sh worker                       -> gradwire-worker
#   docker/build_image.sh worker gradwire-worker:try   -> gradwire-worker:try
#   GPU_BASE=IMAGE docker/build_image.sh gpu           -> gradwire-gpu, on another image with torch
#
# Needs: a Docker engine with buildx (docker/install_engine.sh); PyPI. Makes the base image first if
# it is missing, and uses what the host's pip uses: the CA bundle ($SSL_CERT_FILE) and local wheels
# ($PIP_FIND_LINKS, if a folder).
# Takes: about 1 minute the first time, 1-2 s when only gradwire's code changed.
set -euo pipefail

if [[ $# == 0 || $1 == -* ]]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
target=$1
shift
project=$(cd "$(dirname "$0")/.." && pwd)

"$project/docker/base_image.sh"

base=$("$project/docker/base_image.sh" --name)
arguments=(--file "$project/docker/Dockerfile" --target "$target" --progress plain --load)
arguments+=(--build-arg "BASE=$base")
for tag in "${@:-gradwire-$target}"; do
    arguments+=(--tag "$tag")
done
for base in GPU_BASE GPU_DEVEL_BASE; do
    [[ -z ${!base:-} ]] || arguments+=(--build-arg "$base=${!base}")
done
if [[ -f ${SSL_CERT_FILE:-} ]]; then
    arguments+=(--secret "id=ca,src=$SSL_CERT_FILE")
fi
if [[ -d ${PIP_FIND_LINKS:-} ]]; then
    arguments+=(--build-context "wheels=$PIP_FIND_LINKS")
fi
if [[ -d ${GRADWIRE_REQUIREMENTS:-} ]]; then
    arguments+=(--build-context "requirements=$GRADWIRE_REQUIREMENTS")
fi
exec docker buildx build "${arguments[@]}" "$project"
