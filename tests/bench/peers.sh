#!/usr/bin/env bash
# Leases on Redis beside the lock libraries users would pick instead, and beside the bare commands, in one run.
#
#   tests/bench/peers.sh [FOLDER_OF_PEERS] [ROUNDS] [SECONDS]
#
# Every contestant takes and gives back leases for some seconds and prints one JSON line; all run in turn, round by
# round, against one Redis of this script's own, and the table shows medians. What is not there is skipped, by name.
# REDIS_SERVER names the server's binary, FIELDLEASE the command to measure (default: a release build of this checkout).
set -euo pipefail
cd "$(dirname "$0")/../.."

peers=${1:-}
rounds=${2:-3}
seconds=${3:-5}
server=${REDIS_SERVER:-$(command -v redis-server || echo target/servers/redis-server)}
fieldlease=${FIELDLEASE:-}

say() { printf '%s\n' "$*" >&2; }

if ! command -v "$server" >/dev/null 2>&1; then
    say "peers.sh: there is no Redis server: install Redis, or name its binary in REDIS_SERVER"
    exit 1
fi
if [ -z "$fieldlease" ]; then
    cargo build --locked --release --quiet
    fieldlease=target/release/fieldlease
fi

work=$(mktemp -d)
redis=
stop() {
    # Our own child only; its number is no other's before it was waited for.
    if [ -n "$redis" ]; then
        kill "$redis" 2>/dev/null || true
        wait "$redis" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap stop EXIT

# Whether the server that answers at a port is the one started here.
is_ours() {
    local line
    exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
    printf 'INFO server\r\nQUIT\r\n' >&3
    while IFS= read -r -t 5 line <&3; do
        if [ "${line%$'\r'}" = "process_id:$redis" ]; then
            exec 3>&-
            return 0
        fi
    done
    exec 3>&-
    return 1
}

# A port that nobody has; another is tried when somebody was faster.
for _ in 1 2 3 4 5; do
    # Below the ports the system gives to outgoing connections.
    port=$((12000 + RANDOM % 10000))
    # One program with many names: which of them it is, it sees from its name.
    (exec -a redis-server "$server" --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >"$work/redis.log" 2>&1) &
    redis=$!
    for _ in $(seq 100); do
        if is_ours "$port" 2>/dev/null; then break 2; fi
        kill -0 "$redis" 2>/dev/null || break
        sleep 0.05
    done
    kill "$redis" 2>/dev/null || true
    wait "$redis" 2>/dev/null || true
    redis=
done
if [ -z "$redis" ]; then
    say "peers.sh: Redis did not start:"
    cat "$work/redis.log" >&2
    exit 1
fi
url=redis://127.0.0.1:$port

# run CONTESTANT MODE TASKS: one JSON line.
run() {
    case $1 in
    fieldlease) "$fieldlease" bench leases --redis "$url" --mode "$2" --tasks "$3" --seconds "$seconds" ;;
    bare) "$fieldlease" bench leases --redis "$url" --peer bare --mode "$2" --tasks "$3" --seconds "$seconds" ;;
    bare-of-peers) "$peers/rust/target/release/peers" bare "$url" "$2" "$3" "$seconds" ;;
    rslock) "$peers/rust/target/release/peers" rslock "$url" "$2" "$3" "$seconds" ;;
    node-redlock) node "$peers/node/bench.mjs" "$url" "$2" "$3" "$seconds" ;;
    *) "$peers/venv/bin/python" "$peers/python/bench.py" "$1" "$url" "$2" "$3" "$seconds" ;;
    esac
}

contestants=(bare fieldlease)
if [ -z "$peers" ]; then
    say "no folder of peers is named: skipping bare-of-peers, rslock, node-redlock, redis-py-async, redis-py, python-redis-lock"
else
    if [ ! -d "$peers" ]; then
        say "peers.sh: there is no folder \`$peers\`"
        exit 1
    fi
    peers=$(cd "$peers" && pwd)
    if [ -x "$peers/rust/target/release/peers" ]; then
        contestants+=(bare-of-peers rslock)
    else
        say "skipping bare-of-peers and rslock: $peers/rust is not built"
    fi
    if [ -d "$peers/node/node_modules" ] && command -v node >/dev/null 2>&1; then
        contestants+=(node-redlock)
    else
        say "skipping node-redlock: $peers/node is not installed, or there is no node"
    fi
    if [ -x "$peers/venv/bin/python" ]; then
        contestants+=(redis-py-async redis-py python-redis-lock)
    else
        say "skipping redis-py-async, redis-py and python-redis-lock: $peers/venv is not there"
    fi
fi

# number NAME < LINE
number() { sed -n "s/.*\"$1\": *\\([0-9]*\\).*/\\1/p"; }

# measure WORKLOAD CONTESTANT MODE TASKS COPIES: one line of the results; copies start at once.
measure() {
    local copy cycles=0 p50=0 p99=0 line value pids=()
    for copy in $(seq "$5"); do
        run "$2" "$3" "$4" >"$work/line.$copy" 2>"$work/err.$copy" &
        pids+=($!)
    done
    for copy in $(seq "$5"); do
        if ! wait "${pids[$((copy - 1))]}"; then
            say "$1: $2 failed: $(tail -n 1 "$work/err.$copy")"
            return 0
        fi
        line=$(cat "$work/line.$copy")
        cycles=$((cycles + $(number cycles_per_s <<<"$line")))
        value=$(number p50_us <<<"$line")
        if [ "$value" -gt "$p50" ]; then p50=$value; fi
        value=$(number p99_us <<<"$line")
        if [ "$value" -gt "$p99" ]; then p99=$value; fi
    done
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$cycles" "$p50" "$p99" >>"$work/results"
}

for round in $(seq "$rounds"); do
    say "round $round of $rounds"
    for contestant in "${contestants[@]}"; do
        measure 'own keys, 1 task' "$contestant" own-key 1 1
        measure 'own keys, 64 tasks' "$contestant" own-key 64 1
        case $contestant in
        bare*) ;; # bare commands do not wait
        *)
            measure 'one key, 16 tasks' "$contestant" one-key 16 1
            measure 'one key, 2 x 8 tasks' "$contestant" one-key 8 2
            ;;
        esac
    done
done

printf '%s, %s cores, medians of %s rounds of %s s\n' \
    "$( (exec -a redis-server "$server" --version) | sed 's/ sha=.*//')" "$(nproc)" "$rounds" "$seconds"
# Ratios: to the faster floor, to the peer with the most cycles, and how many times that peer's p99 is ours.
awk -F '\t' '
function median(list, n, values, i, j, swap) {
    n = split(list, values, " ")
    for (i = 1; i <= n; i++)
        for (j = i + 1; j <= n; j++)
            if (values[j] + 0 < values[i] + 0) { swap = values[i]; values[i] = values[j]; values[j] = swap }
    return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
}
{
    if (!($1 in seen)) { seen[$1] = 1; workloads[++count] = $1 }
    if (!(($1, $2) in cycles)) who[$1] = who[$1] "\t" $2
    cycles[$1, $2] = cycles[$1, $2] " " $3
    p50[$1, $2] = p50[$1, $2] " " $4
    p99[$1, $2] = p99[$1, $2] " " $5
}
END {
    for (w = 1; w <= count; w++) {
        name = workloads[w]
        n = split(substr(who[name], 2), contestants, "\t")
        floor = best = best_p99 = 0
        for (i = 1; i <= n; i++) {
            value = median(cycles[name, contestants[i]])
            if (contestants[i] ~ /^bare/) { if (value > floor) floor = value }
            else if (contestants[i] != "fieldlease" && value > best) {
                best = value
                best_p99 = median(p99[name, contestants[i]])
            }
        }
        printf "\n%-22s %10s %9s %9s %9s %11s %13s\n", name, "cycles/s", "p50 us", "p99 us", "x floor", "x best peer", "p99 best peer"
        for (i = 1; i <= n; i++) {
            one = contestants[i]
            value = median(cycles[name, one]); late = median(p99[name, one])
            printf "  %-20s %10d %9d %9d %9s %11s %13s\n", one, value, median(p50[name, one]), late, \
                floor ? sprintf("%.2f", value / floor) : "-", best ? sprintf("%.2f", value / best) : "-", \
                best_p99 && late ? sprintf("/ %.1f", best_p99 / late) : "-"
        }
    }
}' "$work/results"
