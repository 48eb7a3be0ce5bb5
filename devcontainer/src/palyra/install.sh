#!/bin/sh
# Installs Palyra into the image of a development container, as root. The programs lie beside this script, where
# 'make devcontainer' puts them: nothing is fetched but bubblewrap, by the system's own package manager.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
into=${PALYRA_PREFIX:-/usr/local}

fail() {
	echo "palyra: $1" >&2
	exit 1
}

[ "$(id -u)" = 0 ] || fail "a feature is installed as root"
[ "$(uname -m)" = "$(cat "$here/programs/machine" 2>/dev/null)" ] || fail "there are no programs for this machine beside the feature: run 'make devcontainer' on one like it"
(cd "$here/programs" && sha256sum -c --quiet SHA256SUMS) || fail "the programs beside the feature are not those that were packed"

if [ ! -x /usr/bin/bwrap ]; then
	if command -v apt-get >/dev/null 2>&1; then
		apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends bubblewrap >/dev/null
	elif command -v dnf >/dev/null 2>&1; then
		dnf install -q -y bubblewrap
	elif command -v apk >/dev/null 2>&1; then
		apk add -q bubblewrap
	fi
	[ -x /usr/bin/bwrap ] || fail "bubblewrap is missing, and cannot be installed here: put it into the image"
fi

mkdir -p "$into/bin" "$into/share/palyra"
for p in palyra palyra-full palyra-tui palyrad palyra-cell palyra-verify palyra-sign; do
	install -m 0755 "$here/programs/$p" "$into/bin/$p"
done
if [ -e "$here/programs/palyra-wasm" ]; then # skills, where it was built with a C compiler
	install -m 0755 "$here/programs/palyra-wasm" "$into/bin/"
fi
echo "${START:-true}" >"$into/share/palyra/start"
install -m 0755 "$here/post-start.sh" "$into/share/palyra/post-start.sh"
"$into/bin/palyra" version
