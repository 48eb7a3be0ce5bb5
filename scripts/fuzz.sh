#!/usr/bin/env bash
# Runs every fuzz test of the repository for a while.
#
#   scripts/fuzz.sh TIME [PATTERN]     TIME as go test's -fuzztime: 30s, 5m, 1000x
#
# A finding fails the run at once; it is written under the package's testdata/fuzz,
# from where every later 'go test' repeats it. Each package is built once for all of
# its fuzz tests. For a time they run one after the other, each on every processor; for
# a number of tries, which are over before the processors are busy, packages run beside
# each other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:?usage: scripts/fuzz.sh TIME [PATTERN]}
pattern=${2:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$(go env GOCACHE)/fuzz
jobs=1 workers=$(nproc 2>/dev/null || echo 2) guided="-fuzz ."
if [[ $time == *x ]]; then
	jobs=$workers workers=1 guided=
fi
export time work cache workers guided

# of_package DIR NAME... fuzzes the tests of a package. 255 has xargs begin no other.
of_package() {
	local dir=$1 name binary
	binary=$work/$(echo "$dir" | tr / _).test
	shift
	# shellcheck disable=SC2086 # a list of words
	go test -c -vet=off -ldflags="-s -w" $guided -o "$binary" "$dir" || return 255
	for name in "$@"; do
		echo "fuzz: $dir $name for $time"
		(cd "$dir" && "$binary" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "$time" \
			-test.fuzzcachedir "$cache/$dir" -test.parallel "$workers" 2>&1) |
			grep -v -E '^fuzz: elapsed|^PASS$|^warning: the test binary was not built with coverage' || [ "${PIPESTATUS[0]}" = 0 ] || return 255
	done
	rm -f "$binary"
}
export -f of_package

grep -rnE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' . |
	sed -E 's|^([^:]+)/[^/:]+:[0-9]+:func (Fuzz[A-Za-z0-9_]*)\(.*|\1 \2|' | grep -v '/testdata/' | sort >"$work/all"
while read -r dir name; do
	if [[ $name =~ $pattern ]]; then echo "$dir $name"; fi
done <"$work/all" >"$work/chosen"
n=$(wc -l <"$work/chosen")
if [ "$n" = 0 ]; then
	echo "fuzz: nothing matches '$pattern'" >&2
	exit 1
fi
awk '$1 != dir { if (dir) print line; dir = $1; line = $1 } { line = line " " $2 } END { print line }' "$work/chosen" |
	xargs -P "$jobs" -L 1 bash -euo pipefail -c 'of_package "$@"' _
echo "fuzz: $n fuzz tests, no finding"
