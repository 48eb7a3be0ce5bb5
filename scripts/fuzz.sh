#!/usr/bin/env bash
# Runs every fuzz test of the repository for a while, one after the other.
#
#   scripts/fuzz.sh TIME [PATTERN]     TIME as go test's -fuzztime: 30s, 5m, 1000x
#
# A finding fails the run at once; go test writes it under the package's
# testdata/fuzz, from where every later 'go test' repeats it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:?usage: scripts/fuzz.sh TIME [PATTERN]}
pattern=${2:-.}
n=0
while IFS=: read -r file name; do
	[[ $name =~ $pattern ]] || continue
	dir=./$(dirname "$file")
	echo "fuzz: $dir $name for $time"
	go test "$dir" -run '^$' -fuzz "^$name\$" -fuzztime "$time" -parallel "$(nproc 2>/dev/null || echo 2)" |
		grep -v -E '^fuzz: elapsed|^PASS$' || [ "${PIPESTATUS[0]}" = 0 ]
	n=$((n + 1))
done < <(grep -rnE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' . |
	sed -E 's|^\./||; s|^([^:]+):[0-9]+:func (Fuzz[A-Za-z0-9_]*)\(.*|\1:\2|' | grep -v '/testdata/' | sort)

if [ "$n" = 0 ]; then
	echo "fuzz: nothing matches '$pattern'" >&2
	exit 1
fi
echo "fuzz: $n fuzz tests, no finding"
