#!/usr/bin/env bash
# Checks that what a target needs is here. What is missing is installed where
# that is safe (Debian or Ubuntu, as root) and named exactly everywhere else.
#
#   scripts/setup.sh            what building and testing need
#   scripts/setup.sh race       also a C compiler, which the race detector needs
#   scripts/setup.sh gen        also Node, which the protocol generator needs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=()

# need PROGRAM PACKAGE REASON
need() {
	command -v "$1" >/dev/null 2>&1 && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "setup: installing $2 ($3)" >&2
		if DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2" >/dev/null 2>&1 &&
			command -v "$1" >/dev/null 2>&1; then
			return
		fi
	fi
	missing+=("$1, for $3; on Debian or Ubuntu: sudo apt-get install -y $2")
}

need_go() {
	local want have
	want=$(awk '$1 == "go" { print $2; exit }' go.mod)
	if ! command -v go >/dev/null 2>&1; then
		missing+=("go $want or newer, to build; from https://go.dev/dl/, unpacked to /usr/local/go with /usr/local/go/bin in PATH")
		return
	fi
	have=$(go env GOVERSION 2>/dev/null | sed 's/^go//; s/[ -].*//')
	if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
		missing+=("go $want or newer (this is $have); from https://go.dev/dl/, or set GOTOOLCHAIN=auto to have it fetched")
	fi
}

if [ -z "${HOME:-}" ] && [ -z "${GOCACHE:-}" ]; then
	missing+=("a home directory: set HOME, or GOCACHE and GOMODCACHE")
fi
need_go
need git git "the version stamp"
if [ "$(uname -s)" = Linux ]; then
	need unshare util-linux "tests that fill a disk of their own"
fi
for want in "$@"; do
	case $want in
	race) need gcc gcc "the race detector" ;;
	gen) need npx npm "the protocol generator" ;;
	*)
		echo "setup: unknown need '$want'" >&2
		exit 2
		;;
	esac
done

if [ ${#missing[@]} -gt 0 ]; then
	echo "setup: missing here:" >&2
	printf '  - %s\n' "${missing[@]}" >&2
	exit 1
fi
