#!/usr/bin/env bash
# Download Debian's packages of Slurm (3 MB) and unpack them, without installing anything:
#
#   tests/labs/get_slurm.sh [FOLDER]      default: ~/.cache/gradwire/slurm, where the tests look
set -euo pipefail
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/gradwire/slurm}
[[ -x $folder/usr/sbin/slurmctld-wlm ]] && exit
for program in apt-get dpkg-deb; do
    command -v "$program" >/dev/null || { echo "get_slurm: needs $program, which Debian has" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq slurmctld slurmd slurm-client slurm-wlm-basic-plugins libhwloc15 2>/dev/null || {
    echo "get_slurm: apt-get download failed; apt-get update first?" >&2
    exit 1
}
for package in *.deb; do dpkg-deb -x "$package" unpacked; done
[[ -x unpacked/usr/sbin/slurmctld-wlm ]] || { echo "get_slurm: this Debian's Slurm is laid out differently" >&2; exit 1; }
mkdir -p "$(dirname "$folder")"
rm -rf "$folder"
mv unpacked "$folder"
