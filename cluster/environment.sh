#!/usr/bin/env bash
# Makes and keeps the project's private Python environment, .venv beside measure.sh.
#
#   . cluster/environment.sh run        what ./measure.sh and the report need
#   . cluster/environment.sh test       that, and the tools of ./test.sh
#   . cluster/environment.sh horovod    run, and Horovod: for --launcher horovod --engine netns
#   . cluster/environment.sh spark      horovod, and PySpark: for --spark-master
#   . cluster/environment.sh ray        run, and Ray: for --launcher ray
#   . cluster/environment.sh export     run, and what python3 -m analysis.export needs
#
# Sets $python. First use takes a minute or two (torch's CPU build is 200 MB); afterwards a fingerprint
# of the requirements shows in a few milliseconds that there is nothing to do. Two calls at once wait
# for each other. PYTHON=/path/to/python3 chooses the Python to build on (3.11 or newer).
# Horovod is compiled once, 4 minutes on 2 cores; its wheel is kept in ~/.cache/gradwire/wheels.

gradwire_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
gradwire_venv=$gradwire_root/.venv
IFS='=+' read -r _ _ torch_version _ <"$gradwire_root/docker/requirements-torch.txt" # torch==2.13.0+cpu
python=$gradwire_venv/bin/python
gradwire_wheels=${XDG_CACHE_HOME:-~/.cache}/gradwire/wheels

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

# The last line of a set-up that failed says why, and the way out.
gradwire_pip() {
    "$python" -m pip install --quiet --disable-pip-version-check --no-input "$@" 2>"$gradwire_venv/pip.log" || {
        tail -n 5 "$gradwire_venv/pip.log" >&2
        gradwire_say "the set-up failed; is a package index reachable? Run the same command to try again."
        return 1
    }
}

gradwire_install() {
    case $1 in
        run | test) gradwire_install_base "$1" ;;
        horovod) gradwire_install_horovod ;;
        export)
            gradwire_say "installing TensorBoard, MLflow and PyArrow (about a minute)"
            gradwire_pip -r "$gradwire_root/requirements-export.txt"
            ;;
        ray)
            gradwire_say "installing Ray (80 MB, 284 MB unpacked)"
            gradwire_pip -r "$gradwire_root/docker/requirements-ray.txt"
            ;;
        spark)
            gradwire_say "installing PySpark (half a GB, about a minute)"
            gradwire_pip --no-deps -r "$gradwire_root/docker/requirements-spark.txt"
            ;;
    esac
}

gradwire_install_base() {
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
            "torch==$torch_version+cpu" || return
        touch "$gradwire_venv/torch-$torch_version"
    fi
    gradwire_say "installing the rest of requirements-$kind.txt"
    gradwire_pip -r "$gradwire_root/requirements-$kind.txt"
}

gradwire_install_horovod() {
    local version
    version=$(sed -n 's/^readonly version=//p' "$gradwire_root/docker/build_horovod.sh")
    PYTHON=$python "$gradwire_root/docker/build_horovod.sh" "$gradwire_wheels" >&2 || return
    # Of the wheels there, pip takes the one for this Python and machine.
    gradwire_pip --no-deps --find-links "$gradwire_wheels" -r "$gradwire_root/docker/requirements-horovod.txt" \
        "horovod==$version+torch$torch_version"
}

# Of all that decides what a kind installs.
gradwire_fingerprint() {
    local docker=$gradwire_root/docker
    echo "$torch_version"
    case $1 in
        run | test) cat "$gradwire_root"/requirements-*.txt ;;
        horovod) cat "$docker/build_horovod.sh" "$docker/requirements-horovod.txt" ;;
        spark) cat "$docker/requirements-spark.txt" ;;
        ray) cat "$docker/requirements-ray.txt" ;;
        export) cat "$gradwire_root/requirements-export.txt" ;;
    esac
}

gradwire_environment() {
    local kind=$1 fingerprint stamp=$gradwire_venv/fingerprint-$1
    case $kind in
        run | test) ;;
        horovod | export | ray) gradwire_environment run || return ;;
        spark) gradwire_environment horovod || return ;;
        *) gradwire_say "unknown kind of environment '$kind': give run, test, horovod, spark, ray or export"; return 2 ;;
    esac
    fingerprint=$(gradwire_fingerprint "$kind" | cksum)
    [ -x "$python" ] && [ -r "$stamp" ] && [ "$(<"$stamp")" = "$fingerprint" ] && return
    (
        if command -v flock >/dev/null; then
            exec 9>"$gradwire_root/.venv.lock"
            flock -n 9 || { gradwire_say "waiting for another set-up to end"; flock 9; }
            [ -x "$python" ] && [ -r "$stamp" ] && [ "$(<"$stamp")" = "$fingerprint" ] && exit 0
        fi
        gradwire_install "$kind" || exit
        echo "$fingerprint" >"$stamp"
        [ "$kind" != test ] || cp "$stamp" "$gradwire_venv/fingerprint-run"
    )
}

gradwire_environment "$1" || exit
