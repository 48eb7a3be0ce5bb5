#!/usr/bin/env bash
# Runs the tests of packages. Up to two packages that fail are run a second time, whole and one after the
# other, so that one race does not hide what the other thousands of tests say. What held only then is named:
# it is a fault of the test or of the product, to be mended. More failures than that are failures at once.
#
#   scripts/test.sh PACKAGE…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Properties are tried on the same draws every time, so that what fails does so for what was changed. 'make fuzz'
# draws others.
export RAPID_SEED=${RAPID_SEED:-20261117}

go=${GO:-go}
flags="-timeout 30m -vet=off -p 4 -parallel 4"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# shellcheck disable=SC2086 # a list of words
run() { "$go" tool -modfile=tools/go.mod gotestsum --format pkgname --hide-summary skipped --jsonfile "$log" -- $flags "$@"; }

run "$@" && exit
failed=$(grep '"Action":"fail"' "$log" | grep -v '"Test":' | sed 's/.*"Package":"\([^"]*\)".*/\1/' | sort -u)
if [ -z "$failed" ] || [ "$(wc -w <<<"$failed")" -gt 2 ]; then
  exit 1
fi
echo "failed, and run once more:" $failed
# shellcheck disable=SC2086 # a list of words
run -count=1 -p 1 $failed
echo "FAILED ONCE, and held when run again; what failed first stands above:" $failed
