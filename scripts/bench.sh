#!/usr/bin/env bash
# Runs the benchmarks that measure Palyra beside other programs' libraries. They
# are modules of their own below bench/, so that none of those is a dependency;
# one is only built when a benchmark in it is wanted.
#
#   scripts/bench.sh PATTERN TIME     as go test's -bench and -benchtime
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pattern=${1:?usage: scripts/bench.sh PATTERN TIME}
time=${2:?usage: scripts/bench.sh PATTERN TIME}
for dir in bench/*/; do
	names=$(grep -hoE '^func Benchmark[A-Za-z0-9_]*' "$dir"*_test.go | cut -d' ' -f2)
	if grep -qE -- "${pattern%%/*}" <<<"$names"; then
		(cd "$dir" && go test -run '^$' -bench "$pattern" -benchtime "$time" -timeout 60m .)
	fi
done
