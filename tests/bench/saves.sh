#!/usr/bin/env bash
# Saves on PostgreSQL and SQLite beside a bare UPDATE and a transaction by hand, in one run, as ratios.
#
#   tests/bench/saves.sh [ROUNDS] [SECONDS]
#
# Starts a PostgreSQL of its own with the settings it comes with (fsync on), and a proxy that delays: 0.5 ms each way. Rounds of
# all cases follow each other; the table shows the medians of the rounds, and the medians of the ratios within a round.
# FSYNC=off leaves the disk out, and with it what both wait for: then the processor is compared.
# POSTGRES_BIN names the folder of the server's programs, FIELDLEASE the command to measure (default: a release build of
# this checkout). As root the server runs as the user `postgres`.
set -euo pipefail
cd "$(dirname "$0")/../.."

rounds=${1:-3}
seconds=${2:-3}
bin=${POSTGRES_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)}
fieldlease=${FIELDLEASE:-}

say() { printf '%s\n' "$*" >&2; }

if [ ! -x "$bin/initdb" ]; then
    say "saves.sh: there is no PostgreSQL server: install it, or name its folder in POSTGRES_BIN"
    exit 1
fi
if [ -z "$fieldlease" ]; then
    cargo build --locked --release --quiet
    fieldlease=target/release/fieldlease
fi

work=$(mktemp -d)
as=()
if [ "$(id -u)" = 0 ]; then
    chown postgres "$work"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
fi
server=
proxy=
stop() {
    # Our own children only; their numbers are no others' before they were waited for. The server ends its sessions on SIGINT.
    if [ -n "$proxy" ]; then
        kill -TERM "$proxy" 2>/dev/null || true
        wait "$proxy" 2>/dev/null || true
    fi
    if [ -n "$server" ]; then
        kill -INT "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap stop EXIT

"${as[@]}" "$bin/initdb" -D "$work/data" -U postgres -A trust -E UTF8 --locale=C >"$work/initdb.log"
# Below the ports the system gives to outgoing connections.
port=$((12000 + RANDOM % 10000))
"${as[@]}" "$bin/postgres" -D "$work/data" -p "$port" -c fsync="${FSYNC:-on}" -c listen_addresses=127.0.0.1 -c unix_socket_directories="$work" >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 200); do
    "${as[@]}" "$bin/pg_isready" -q -h "$work" -p "$port" && break
    sleep 0.1
done
# Over the socket in our own folder: nobody else answers there.
"${as[@]}" "$bin/psql" -q -h "$work" -p "$port" -U postgres -c "CREATE DATABASE bench"

python3 - "$port" "$((port + 1))" <<'PROXY' &
import asyncio, sys

DELAY = 0.0005
TO, AT = int(sys.argv[1]), int(sys.argv[2])


async def carry(reader, writer):
    loop, queue = asyncio.get_running_loop(), asyncio.Queue()

    async def out():
        while True:
            due, data = await queue.get()
            if data is None:
                writer.close()
                return
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            writer.write(data)
            await writer.drain()

    task = asyncio.create_task(out())
    while data := await reader.read(65536):
        queue.put_nowait((loop.time() + DELAY, data))
    queue.put_nowait((0, None))
    await task


async def serve(reader, writer):
    there, to = await asyncio.open_connection("127.0.0.1", TO)
    await asyncio.gather(carry(reader, to), carry(there, writer), return_exceptions=True)


async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", AT) as server:
        await server.serve_forever()


asyncio.run(main())
PROXY
proxy=$!
sleep 0.5

direct="postgres://postgres@127.0.0.1:$port/bench?sslmode=disable"
delayed="postgres://postgres@127.0.0.1:$((port + 1))/bench?sslmode=disable"
"$fieldlease" migrate --store "$direct" >/dev/null
"$fieldlease" migrate --store "sqlite:$work/bench.db" >/dev/null

# number NAME < LINE
number() { sed -n "s/.*\"$1\": *\\([0-9]*\\).*/\\1/p"; }

# case NAME URL TASKS: one line of the results, or what went wrong.
measure() {
    if ! "$fieldlease" bench saves --store "$2" --tasks "$3" --seconds "$seconds" >"$work/lines" 2>"$work/err"; then
        say "$1: $(tail -n 1 "$work/err")"
        return 0
    fi
    printf '%s\t%s\t%s\t%s\n' "$1" $(number saves_per_s <"$work/lines") >>"$work/results"
}

for round in $(seq "$rounds"); do
    say "round $round of $rounds"
    for form in none transaction; do
        name=prepared
        if [ "$form" = transaction ]; then name=typed; fi
        for tasks in 1 12; do
            measure "loopback, $name, $tasks" "$direct&pooler=$form" "$tasks"
            measure "1 ms of delay, $name, $tasks" "$delayed&pooler=$form" "$tasks"
        done
    done
    measure "SQLite, 1" "sqlite:$work/bench.db" 1
    measure "SQLite, 12" "sqlite:$work/bench.db" 12
done

python3 - "$work/results" <<'TABLE'
import statistics, sys

rounds = {}
for line in open(sys.argv[1]):
    name, *numbers = line.rstrip("\n").split("\t")
    rounds.setdefault(name, []).append([int(number) for number in numbers])
print("| saves per second | bare `UPDATE` | fenced save | transaction | save : bare | save : transaction |")
print("|---|---|---|---|---|---|")
for name, rows in rounds.items():
    bare, save, hand = (round(statistics.median(column)) for column in zip(*rows))
    to_bare = statistics.median(row[1] / row[0] for row in rows)
    to_hand = statistics.median(row[1] / row[2] for row in rows)
    print(f"| {name} | {bare:,} | {save:,} | {hand:,} | {to_bare:.2f} | {to_hand:.2f} |")
TABLE
