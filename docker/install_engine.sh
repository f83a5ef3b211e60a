#!/usr/bin/env bash
# Install and start a Docker engine with Compose v2 and buildx on a Debian machine that has none.
#
#   sudo docker/install_engine.sh          install what is missing, start the engine, wait for it
#   sudo docker/install_engine.sh --stop   stop the engine, if this script started it (for CI)
#
# Needs: Debian 12 or later, root, a Debian package mirror. No image registry.
# Takes: about 30 s the first time; under 1 s once an engine answers. Safe to run again.
#
# Debian 12's own Docker is too old (20.10: no `docker compose`, no named build contexts), so there
# the five Docker packages come from Debian 13, from the configured mirror. They are pinned below
# everything else, so that no other package follows them; runc, tini and iptables stay Debian 12's
# own.
set -euo pipefail

readonly log=/var/log/gradwire-dockerd.log
readonly pidfile=/var/run/gradwire-dockerd.pid
readonly start_s=60 stop_s=60

say() { printf 'install_engine: %s\n' "$*"; }
fail() { printf 'install_engine: %s\n' "$*" >&2; exit 1; }

engine_answers() { timeout 10 docker info >/dev/null 2>&1; }
has_compose() { docker compose version >/dev/null 2>&1; }
has_buildx() { docker buildx version >/dev/null 2>&1; }

# The dockerd this script started: its pid, if the process of that number still is a dockerd.
own_dockerd() {
    local pid
    pid=$(cat "$pidfile" 2>/dev/null) || return 1
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]] && echo "$pid"
}

need_root() { [[ $EUID == 0 ]] || fail "needs root: run it again as  sudo $0${*:+ $*}"; }

os_release() { sed -nE "s/^$1=\"?([^\"]*)\"?$/\1/p" /etc/os-release 2>/dev/null || true; }

# Prints Debian's number; testing and sid have none, which means newer than all.
debian_version() {
    local id version
    id=$(os_release ID)
    version=$(os_release VERSION_ID)
    [[ $id == debian && ${version:-99} -ge 12 ]] ||
        fail "this is ${id:-not Linux} $version, not Debian 12 or later: install Docker as" \
            "https://docs.docker.com/engine/install says, or measure without it (--engine netns)"
    echo "${version:-99}"
}

# Add suite trixie to apt, with the address and the key of the configured Debian source.
add_trixie() {
    local uri entry key
    # shellcheck disable=SC2016  # these are apt's variables
    read -r uri entry < <(apt-get indextargets --format '$(REPO_URI) $(SOURCESENTRY)' \
        'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' 'Component: main') ||
        fail "apt has no source for Debian 12 (bookworm main): add one to" \
            "/etc/apt/sources.list.d and run apt-get update"
    key=$(sed -nE 's/^Signed-By: *([^ ]+) *$/\1/Ip; s/^deb .*signed-by=([^] ]+).*/\1/Ip' \
        "${entry%:*}" | head -n 1)
    printf '%s\n' 'Types: deb' "URIs: $uri" 'Suites: trixie' 'Components: main' \
        ${key:+"Signed-By: $key"} >/etc/apt/sources.list.d/gradwire-trixie.sources
    printf '%s\n' 'Package: *' 'Pin: release n=trixie' 'Pin-Priority: 50' \
        >/etc/apt/preferences.d/gradwire-trixie
}

install_packages() {
    local debian from="" packages=()
    debian=$(debian_version)
    command -v dockerd >/dev/null || packages+=(docker.io containerd docker-cli)
    has_compose || packages+=(docker-compose)
    has_buildx || packages+=(docker-buildx)
    [[ ${#packages[@]} -gt 0 ]] || return 0

    if [[ $debian == 12 ]]; then
        apt-get update -qq      # add_trixie needs the sources' code names, from their index files
        add_trixie
        from=/trixie
    fi
    say "installing ${packages[*]} (from ${from:+Debian 13, pinned low, on }Debian $debian) ..."
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${packages[@]/%/$from}" runc tini iptables >/dev/null
    hash -r
}

start_engine() {
    local pid
    if [[ -d /run/systemd/system ]]; then
        say "starting docker.service (at most $start_s s) ..."
        systemctl enable --now docker.service
    else
        say "no systemd here: starting dockerd by hand, log in $log (at most $start_s s) ..."
        own_dockerd >/dev/null || rm -f "$pidfile"      # left by one that was killed
        setsid nohup dockerd --pidfile "$pidfile" >"$log" 2>&1 </dev/null &
        pid=$!
    fi
    SECONDS=0
    while ((SECONDS < start_s)); do
        engine_answers && return 0
        [[ -z ${pid:-} || -d /proc/$pid ]] || break
        sleep 0.5
    done
    if [[ -n ${pid:-} ]]; then
        tail -n 20 "$log"
    else
        journalctl -u docker.service -n 20 --no-pager
    fi >&2
    fail "the engine did not answer within $start_s s; the end of its log is above"
}

stop_engine() {
    local pid
    pid=$(own_dockerd) || { say "this script started no engine: nothing to stop"; return 0; }
    say "stopping dockerd $pid ..."
    kill "$pid"
    SECONDS=0
    while ((SECONDS < stop_s)); do
        [[ -d /proc/$pid ]] || { rm -f "$pidfile"; say "stopped"; return 0; }
        sleep 0.2
    done
    fail "dockerd $pid still runs after $stop_s s: see $log"
}

ready() {
    say "$1: engine $(docker info --format '{{.ServerVersion}}')," \
        "compose $(docker compose version --short)"
    [[ -z ${SUDO_USER:-} ]] ||
        say "to use it without sudo: sudo usermod -aG docker $SUDO_USER, then log in again"
}

case ${1:-} in
    "") ;;
    --stop) need_root "$@"; stop_engine; exit ;;
    *) say "unknown argument '$1': give none, or --stop" >&2; exit 2 ;;
esac

if engine_answers && has_compose && has_buildx; then
    ready "already there"
    exit 0
fi
need_root
install_packages
engine_answers || start_engine
has_compose || fail "the engine answers, but 'docker compose' fails with $(command -v docker)"
has_buildx || fail "the engine answers, but 'docker buildx' fails with $(command -v docker)"
ready "ready"
