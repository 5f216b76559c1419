#!/usr/bin/env bash
# Runs a command beside a PostgreSQL of its own, named by READAHEAD_TEST_POSTGRES and gone when the command ends:
#   scripts/with_postgres.sh make test
# Where PostgreSQL is not installed the command runs without it, and the tests that need it are skipped.
set -euo pipefail

binaries="$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -1 || true)"
if [ -z "$binaries" ]; then
  exec "$@"
fi

folder="$(mktemp -d)"
server() { # PostgreSQL does not run as root
  if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}
stop() {
  server "$binaries/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap stop EXIT
if [ "$(id -u)" = 0 ]; then chown postgres "$folder"; fi
chmod 711 "$folder"
cd "$folder" && server "$binaries/initdb" -D "$folder/data" -U readahead --auth=trust --encoding=UTF8 --no-sync >/dev/null
cd - >/dev/null
server "$binaries/pg_ctl" -D "$folder/data" -l "$folder/log" -w \
  -o "-c listen_addresses='' -c unix_socket_directories='$folder' -c fsync=off -c max_connections=200" start >/dev/null

READAHEAD_TEST_POSTGRES="postgresql+asyncpg://readahead@/postgres?host=$folder" "$@"
