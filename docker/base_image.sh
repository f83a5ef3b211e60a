#!/usr/bin/env bash
# Provide the base image of docker/Dockerfile, also where no image registry can be reached.
#
#   docker/base_image.sh             make it, if it is missing
#   docker/base_image.sh --name      print its name: gradwire-base, tagged with the Dockerfile's digest
#
# In this order: it exists; it can be pulled by its digest (within 20 s); it is built from Debian
# packages by debootstrap, with the packages that the Dockerfile would install first (Python, tc).
#
# Needs: a Docker engine (docker/install_engine.sh). To build: root, a Debian mirror, 1 GB free.
# Takes: nothing, a pull, or about 70 s (makes 150 MB).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
pinned=$(sed -n 's/^ARG BASE=//p' "$here/Dockerfile")
digest=${pinned#*@sha256:}
readonly pinned image=gradwire-base:${digest:0:12} suite=bookworm
readonly packages=ca-certificates,python3,python3-venv,python3-pip,iproute2
readonly pull_s=20

say() { printf 'base_image: %s\n' "$*"; }
fail() { printf 'base_image: %s\n' "$*" >&2; exit 1; }

# The Debian mirror of this machine (a mirror has every suite); empty where apt knows none.
mirror() {
    # shellcheck disable=SC2016  # apt's variable
    apt-get indextargets --format '$(REPO_URI)' \
        'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null |
        grep -m 1 -E '^(https?|file):' || true
}

# debootstrap mounts proc and sys in the tree; an interrupted one may leave them mounted.
remove_tree() {
    umount -q "$work/root/proc" "$work/root/sys" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}

case ${1:-} in
    "") ;;
    --name) echo "$image"; exit ;;
    *) fail "unknown argument '$1': give none, or --name" ;;
esac
docker info >/dev/null 2>&1 || fail "no Docker engine answers: run docker/install_engine.sh first"
if docker image inspect "$image" >/dev/null 2>&1; then
    say "$image is here already"
    exit 0
fi

say "pulling $pinned (at most $pull_s s) ..."
if timeout "$pull_s" docker pull --quiet "$pinned" >/dev/null 2>&1; then
    docker tag "$pinned" "$image"
    say "pulled $image"
    exit 0
fi

[[ $EUID == 0 ]] ||
    fail "$pinned cannot be pulled and building it needs root: run it again as  sudo $0"
say "it cannot be pulled: building $image from Debian packages"
if ! command -v debootstrap >/dev/null; then
    command -v apt-get >/dev/null ||
        fail "debootstrap is not installed: install it, or name another image with 'docker tag IMAGE $image'"
    say "installing debootstrap ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
fi

work=$(mktemp -d)
trap remove_tree EXIT
trap 'exit 130' INT TERM
root=$work/root

say "debootstrap $suite (about 60 s) ..."
debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$(mirror)" \
    >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" "$root/debootstrap/debootstrap.log" >&2 2>/dev/null || true
    fail "debootstrap failed; the end of its log is above"
}

say "tidying ..."
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
    "$root"/usr/share/{man,info,locale}/*
find "$root/usr/share/doc" -type f ! -name copyright -delete

say "importing $(du -sm --one-file-system "$root" | cut -f 1) MB ..."
tar -C "$root" --one-file-system --numeric-owner -c . |
    docker import --change 'CMD ["bash"]' - "$image" >/dev/null
say "made $image"
