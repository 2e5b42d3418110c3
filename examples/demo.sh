#!/bin/sh
# `make demo`: create a lake in a temporary folder, load it, update it and read an older version.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM
.venv/bin/jetbridge sql --echo --warehouse "$folder/lake" - < examples/demo.sql
cat <<END

The same lake in DuckDB: run "make serve", then

  INSTALL airport FROM community; LOAD airport;
  ATTACH 'lake' AS lake (TYPE AIRPORT, LOCATION 'grpc://127.0.0.1:8815');
  FROM lake.shop.daily;
END
