#!/usr/bin/env bash
# Sets up other sandboxes that 'make bench' measures beside Palyra in one run: 'codex
# sandbox' and 'srt'. Each is tried here, before anything long begins, and either is
# written to bin/peers/ready or said not to be measured, with the reason.
#
#   scripts/peers.sh PATTERN     as go test's -bench; nothing is done if it leaves them out
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pattern=${1:-.}
grep -qE -- "${pattern%%/*}" <<<BenchmarkPeers || exit 0
dir=$PWD/bin/peers
packages=(@openai/codex@0.166.0 @anthropic-ai/sandbox-runtime@0.0.78)
mkdir -p "$dir/home/.codex" "$dir/tmp" "$dir/work"
: >"$dir/ready"

# not NAME REASON
not() { echo "bench: $1 is not measured: $2" >&2; }

# set_up PACKAGE: a half of an earlier try does not count.
set_up() {
	local mark=$dir/.${1//[@\/]/_}
	[ -e "$mark" ] && return
	command -v npm >/dev/null 2>&1 || { echo "npm is missing" && return 1; }
	npm install --silent --no-fund --no-audit --prefix "$dir" "$1" 2>&1 | tail -n 3 || return 1
	touch "$mark"
}

# try NAME PROGRAM WORDS…: runs it once as the benchmark does. Codex wants no home below the
# directory of temporary files, which a clone may be in: it is told another one.
try() {
	local name=$1 said
	shift
	if said=$(cd "$dir/work" && env -i PATH="$PATH" HOME="$dir/home" CODEX_HOME="$dir/home/.codex" TMPDIR="$dir/tmp" "$@" 2>&1 </dev/null); then
		echo "$name" >>"$dir/ready"
	else
		not "$name" "$(tail -n 3 <<<"${said:-it failed}" | tr '\n' ' ')"
	fi
}

if said=$(set_up "${packages[0]}"); then
	native=$(find "$dir"/node_modules/@openai/codex-*/vendor/*/bin -name codex 2>/dev/null | head -n 1)
	try codex "${native:-$dir/node_modules/.bin/codex}" sandbox /bin/true
else
	not codex "${packages[0]} cannot be installed: ${said//$'\n'/ }"
fi
if said=$(scripts/setup.sh srt 2>&1) && said=$(set_up "${packages[1]}"); then
	try srt "$dir/node_modules/.bin/srt" /bin/true
else
	not srt "${said//$'\n'/ }"
fi
[ -s "$dir/ready" ] && echo "bench: measured beside Palyra: $(paste -sd ' ' "$dir/ready")" >&2
exit 0
