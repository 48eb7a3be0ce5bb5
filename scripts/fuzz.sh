#!/usr/bin/env bash
# Runs every fuzz test of the repository for a while, one after the other.
#
#   scripts/fuzz.sh TIME [PATTERN]     TIME as go test's -fuzztime: 30s, 5m, 1000x
#
# A finding fails the run at once; it is written under the package's testdata/fuzz,
# from where every later 'go test' repeats it. Each package is built once for all of
# its fuzz tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:?usage: scripts/fuzz.sh TIME [PATTERN]}
pattern=${2:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$(go env GOCACHE)/fuzz
n=0 built=
while IFS=: read -r file name; do
	[[ $name =~ $pattern ]] || continue
	dir=./$(dirname "$file")
	echo "fuzz: $dir $name for $time"
	if [ "$dir" != "$built" ]; then
		go test -c -fuzz . -o "$work/fuzz.test" "$dir"
		built=$dir
	fi
	(cd "$dir" && "$work/fuzz.test" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "$time" \
		-test.fuzzcachedir "$cache/$dir" -test.parallel "$(nproc 2>/dev/null || echo 2)" 2>&1) |
		grep -v -E '^fuzz: elapsed|^PASS$' || [ "${PIPESTATUS[0]}" = 0 ]
	n=$((n + 1))
done < <(grep -rnE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' . |
	sed -E 's|^\./||; s|^([^:]+):[0-9]+:func (Fuzz[A-Za-z0-9_]*)\(.*|\1:\2|' | grep -v '/testdata/' | sort)

if [ "$n" = 0 ]; then
	echo "fuzz: nothing matches '$pattern'" >&2
	exit 1
fi
echo "fuzz: $n fuzz tests, no finding"
