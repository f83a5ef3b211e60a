#!/usr/bin/env bash
# Build Horovod for the Python and the torch that are here, from its source release on PyPI.
#
#   docker/build_horovod.sh FOLDER                              -> FOLDER/horovod-0.28.1+torch2.13.0-cp311-cp311-linux_x86_64.whl
#   PYTHON=.venv/bin/python docker/build_horovod.sh FOLDER      for that Python (otherwise python3)
#
# Needs: torch in that Python; g++, make and Python's headers; PyPI, from where cmake comes too. x86-64 and arm64.
# Takes: under 4 minutes on 2 cores, and says every few seconds how far it is; nothing when the wheel is there already.
#
# The wheel uses no instruction that only some machines of its kind have. It needs the torch it was built against, and
# carries that torch's version in its own. Install it without its dependencies (requirements-horovod.txt has them).
set -euo pipefail

readonly version=0.28.1
readonly sha256=92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0
readonly tools=(cmake==4.4.4 packaging==26.3 setuptools==80.9.0)
readonly python=${PYTHON:-python3}
readonly every_s=5

say() { printf 'build_horovod: %s\n' "$*"; }
fail() { printf 'build_horovod: %s\n' "$*" >&2; exit 1; }

# FILE OLD NEW: as sed's s; that OLD is not there means that this is not the source we know.
edit() {
    grep -q -- "$2" "$source/$1" || fail "cannot adapt Horovod $version: $1 has no line with '$2'"
    sed -i "s|$2|$3|" "$source/$1"
}

pip() { "$python" -m pip --disable-pip-version-check --no-input "$@"; }

stop() {
    [[ -z ${builder:-} ]] || kill -- "-$builder" 2>/dev/null || true
    [[ -z ${work:-} ]] || rm -rf "$work"
}

if [[ $# != 1 || $1 == -* ]]; then
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
torch=$("$python" -c 'import torch; print(torch.__version__.partition("+")[0])' 2>/dev/null) ||
    fail "$python has no torch: install it first, Horovod is built against it"
tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
mkdir -p "$1"
folder=$(cd "$1" && pwd)
wheel=$folder/horovod-$version+torch$torch-$tag-$tag-linux_$(uname -m).whl
if [[ -e $wheel ]]; then
    say "${wheel##*/} is there already"
    exit 0
fi
missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v make >/dev/null || missing+=(make)
[[ -e $headers/Python.h ]] || missing+=(python3-dev)
[[ ${#missing[@]} == 0 ]] ||
    fail "needs ${missing[*]} to compile; on Debian or Ubuntu: apt-get install --no-install-recommends ${missing[*]}"

trap stop EXIT
trap 'exit 130' INT TERM
work=$(mktemp -d)
source=$work/horovod-$version log=$work/log
cores=$(nproc)

say "building Horovod $version for torch $torch, $tag, $(uname -m), once; about 4 minutes on 2 cores (here: $cores)"
export PIP_ROOT_USER_ACTION=ignore
echo "horovod==$version --hash=sha256:$sha256" >"$work/requirements.txt"
fetch() {
    pip install --target "$work/tools" "${tools[@]}" &&
        PYTHONPATH=$work/tools pip download --no-deps --no-build-isolation --no-binary horovod \
            --dest "$work" --requirement "$work/requirements.txt" &&
        tar -xzf "$work/horovod-$version.tar.gz" -C "$work"
}
fetch >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    fail "could not fetch Horovod $version or the tools to build it; is a package index reachable?"
}

# Its last release is of 2023: torch wants C++20 by now, and gloo what came after C++11.
edit CMakeLists.txt 'set(CMAKE_CXX_STANDARD 14)' 'set(CMAKE_CXX_STANDARD 20)'
edit horovod/torch/CMakeLists.txt 'set(CMAKE_CXX_STANDARD 14)' 'set(CMAKE_CXX_STANDARD 20)'
edit third_party/gloo/CMakeLists.txt '-std=c++11' '-std=c++17'
# Python has no distutils since 3.12.
edit horovod/torch/CMakeLists.txt 'from distutils.sysconfig import get_python_inc; print(get_python_inc())' \
    "import sysconfig; print(sysconfig.get_path('include'))"
edit horovod/runner/js_run.py 'from distutils.spawn import find_executable' 'from shutil import which as find_executable'
# Without this file an old pip would have setup.py fetch things.
printf '[build-system]\nrequires = []\nbuild-backend = "setuptools.build_meta:__legacy__"\n' >"$source/pyproject.toml"
# Without debugging symbols: a fifth of the size, and sooner done.
edit setup.py "'RelWithDebInfo'" "'Release'"

export PATH=$work/tools/bin:$PATH PYTHONPATH=$work/tools
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1
export HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_LOCAL_VERSION=torch$torch
export HOROVOD_BUILD_ARCH_FLAGS=-O3     # else what this very machine has
export CMAKE_POLICY_VERSION_MINIMUM=3.5 MAKEFLAGS=-j$cores LDFLAGS=-s

SECONDS=0
# A session of its own, so that stop reaches the compilers too.
setsid "$python" -m pip --disable-pip-version-check --no-input wheel --verbose --no-deps --no-build-isolation \
    --wheel-dir "$work/wheel" "$source" >"$log" 2>&1 &
builder=$!
while sleep "$every_s"; [[ -d /proc/$builder ]]; do
    percent=$(sed -nE 's/^ *\[ *([0-9]+)%\].*/\1/p' "$log" | tail -n 1)
    say "compiling: ${percent:-0} %, $SECONDS s"
done
wait "$builder" || {
    builder=
    grep -m 5 -E '(error|Error):?' "$log" >&2 || true
    tail -n 10 "$log" >&2
    fail "Horovod $version could not be built; its complaints are above"
}
builder=
[[ -e $work/wheel/${wheel##*/} ]] || fail "expected ${wheel##*/}, but the build made $(ls "$work/wheel")"
# Under its name all at once: another build may look for it.
mv "$work/wheel/${wheel##*/}" "$wheel.new"
mv "$wheel.new" "$wheel"
say "made ${wheel##*/} in $SECONDS s"
