#!/usr/bin/env bash
# Everything that must pass before a change lands, in one command. Installs what is missing (Debian packages).
# Each tier prints the seconds it took and its budget on two cores from an empty target folder.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n== %s\n' "$*"; }

if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH="$HOME/.cargo/bin:$PATH"
fi
if ! command -v cargo >/dev/null 2>&1; then
    echo "test.sh: cargo was not found: install Rust 1.91 or newer first" >&2
    exit 1
fi

missing=()
command -v cc >/dev/null 2>&1 || missing+=(gcc libc6-dev)
command -v git >/dev/null 2>&1 || missing+=(git)
if [ "${#missing[@]}" -gt 0 ]; then
    say "installing ${missing[*]}"
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# tier NAME BUDGET_SECONDS COMMAND...
tier() {
    local name=$1 budget=$2 start=$SECONDS
    shift 2
    say "$name"
    "$@"
    printf -- '-- %s: %d s (budget %d s)\n' "$name" "$((SECONDS - start))" "$budget"
}

# The servers that tests start: Redis 7 and 6.2, Valkey 9, PostgreSQL, MariaDB, pgbouncer.
tier 'servers for the tests' 150 tests/servers/install.sh target/servers
tier 'format' 10 cargo fmt --check
tier 'lints' 240 cargo clippy --locked --quiet --all-targets -- -D warnings
tier 'the library alone' 60 cargo check --locked --quiet --lib --no-default-features
tier 'documentation' 60 env RUSTDOCFLAGS='-D warnings' cargo doc --locked --quiet --no-deps
tier 'build the tests' 420 cargo test --locked --quiet --no-run
tier 'tests' 600 cargo test --locked
say "all tiers passed in $SECONDS s (budget 1500 s)"
