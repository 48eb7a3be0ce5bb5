#!/usr/bin/env bash
# Runs benchmarks in rounds, and prints one table of those that have a hold.
#
#   scripts/bench.sh PATTERN TIME ROUNDS COPY
#
# PATTERN and TIME are as go test's -bench and -benchtime; "holds" is the pattern of those that have a hold. COPY gets
# the table for machines. What the benchmarks print themselves is in COPY.txt.
#
# Modules of their own below bench/ measure Palyra beside other programs' libraries, so that none of those is a
# dependency; one is only built when a benchmark in it is wanted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage="usage: scripts/bench.sh PATTERN TIME ROUNDS COPY"
pattern=${1:?$usage} time=${2:?$usage} rounds=${3:?$usage} copy=${4:?$usage}
(cd tools && go build -o ../bin/benchtable ./benchtable)
[ "$pattern" != holds ] || pattern=$(bin/benchtable pattern)
# The longest of those with a hold is measured by itself: the others of its kind take minutes more.
long='^BenchmarkReplay$'

raw=$copy.txt
mkdir -p "$(dirname "$copy")"
: >"$raw"

# measure PATTERN PACKAGE…: one round, which is seen as it comes.
measure() {
	local wanted=$1
	shift
	go test -run '^$' -bench "$wanted" -benchtime "$time" -benchmem -timeout 60m "$@" | cut -c1-1000 | tee -a "$raw" ||
		{ failed=1 && echo "bench: a benchmark of $* failed; the others go on" >&2; }
}
failed=0

# having PATTERN: the packages with a benchmark that matches.
having() {
	grep -rHoE --include='*_test.go' '^func Benchmark[A-Za-z0-9_]*' cmd internal client policy 2>/dev/null |
		sed 's/^\(.*\)\/[^/]*:func \(.*\)$/.\/\1 \2/' | awk -v p="${1%%/*}" '$2 ~ p { print $1 }' | sort -u
}

mapfile -t pkgs < <(having "$pattern")
echo "bench: load $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown) at the start; $rounds rounds of ${#pkgs[@]} packages" >&2
for ((i = 0; i < rounds; i++)); do
	for pkg in "${pkgs[@]}"; do
		if [ "$pkg" = ./internal/daemon ] && grep -qE "${pattern%%/*}" <<<BenchmarkReplay && [ "$1" = holds ]; then
			measure '^Benchmark(Gate|Heap)$' "$pkg"
			[ "$i" -gt 0 ] || measure "$long/distinct/calls=100000" "$pkg"
		elif [ "$pkg" = ./internal/policy/replay ] && [ "$1" = holds ]; then
			:
		elif [ "$pkg" = ./internal/policy ] && [ "$1" = holds ]; then
			measure '^BenchmarkJudge$/allow/5$' "$pkg"
		else
			measure "$pattern" "$pkg"
		fi
	done
	for dir in bench/*/; do
		names=$(grep -hoE '^func Benchmark[A-Za-z0-9_]*' "$dir"*_test.go | cut -d' ' -f2)
		if [ "$i" -eq 0 ] && grep -qE -- "${pattern%%/*}" <<<"$names"; then
			(cd "$dir" && go test -run '^$' -bench "$pattern" -benchtime "$time" -timeout 60m .) | tee -a "$raw"
		fi
	done
done
echo
if grep -qE "$(bin/benchtable pattern | sed 's/^^//; s/\$$//')" "$raw"; then
	bin/benchtable table "$copy" <"$raw"
fi
exit "$failed"
