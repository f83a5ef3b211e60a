#!/usr/bin/env bash
# Makes and keeps the project's private Python environment, .venv beside measure.sh.
#
#   . cluster/environment.sh run     what ./measure.sh and the report need
#   . cluster/environment.sh test    that, and the tools of ./test.sh
#
# Sets $python. First use takes a minute or two (torch's CPU build is 200 MB); afterwards a fingerprint
# of the requirements shows in a few milliseconds that there is nothing to do. Two calls at once wait
# for each other. PYTHON=/path/to/python3 chooses the Python to build on (3.11 or newer).

gradwire_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
gradwire_venv=$gradwire_root/.venv
torch_version=2.13.0
python=$gradwire_venv/bin/python

gradwire_say() { printf 'gradwire: %s\n' "$*" >&2; }

gradwire_find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    gradwire_say "needs Python 3.11 or newer with venv; on Debian or Ubuntu: apt-get install python3-venv"
    return 1
}

gradwire_pip() { "$python" -m pip install --quiet --disable-pip-version-check --no-input "$@"; }

gradwire_install() {
    local kind=$1 base
    # Also where an earlier set-up was cut short, or the Python it was built on is gone.
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        base=$(gradwire_find_python) || return
        gradwire_say "making .venv with $("$base" --version) (first use, about a minute)"
        "$base" -m venv --clear "$gradwire_venv" || return
    fi
    # The host trains only in namespaces, which only Linux has; containers bring their own torch.
    if [ "$(uname -s)" = Linux ] && [ ! -e "$gradwire_venv/torch-$torch_version" ]; then
        gradwire_say "installing torch $torch_version, CPU build"
        # Alone and first, from PyTorch's CPU index: the default index would bring gigabytes of CUDA.
        gradwire_pip --retries 0 --extra-index-url https://download.pytorch.org/whl/cpu \
            "torch==$torch_version+cpu" 2>"$gradwire_venv/pip.log" || {
            tail -n 5 "$gradwire_venv/pip.log" >&2
            return 1
        }
        touch "$gradwire_venv/torch-$torch_version"
    fi
    gradwire_say "installing the rest of requirements-$kind.txt"
    gradwire_pip -r "$gradwire_root/requirements-$kind.txt" 2>"$gradwire_venv/pip.log" || {
        tail -n 5 "$gradwire_venv/pip.log" >&2
        return 1
    }
}

gradwire_environment() {
    local kind=$1 fingerprint stamp=$gradwire_venv/fingerprint-$1
    fingerprint=$(echo "$torch_version" | cat - "$gradwire_root"/requirements-*.txt | cksum)
    [ -x "$python" ] && [ -r "$stamp" ] && [ "$(<"$stamp")" = "$fingerprint" ] && return
    (
        if command -v flock >/dev/null; then
            exec 9>"$gradwire_root/.venv.lock"
            flock -n 9 || { gradwire_say "waiting for another set-up to end"; flock 9; }
            [ -x "$python" ] && [ -r "$stamp" ] && [ "$(<"$stamp")" = "$fingerprint" ] && exit 0
        fi
        gradwire_install "$kind" && echo "$fingerprint" | tee "$stamp" >"$gradwire_venv/fingerprint-run"
    ) || {
        gradwire_say "the set-up failed; is a package index reachable? Run the same command to try again."
        return 1
    }
}

gradwire_environment "$1" || exit 1
