#!/usr/bin/env bash
# Builds the console, console/, into internal/web/dist, which is checked in: the Go
# build needs no Node. Node and what the lock names are installed below the cache
# directory (scripts/node.sh); a checkout stays as it is.
#
#   scripts/console.sh           build
#   scripts/console.sh check     say whether what is checked in was built from the sources; needs no Node
#   scripts/console.sh types     generate console/src/gen from the protos, then build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

# digest is that of the sources; internal/web compares it in the same way.
digest() {
	(cd console && find . -name node_modules -prune -o -type f -print | sed 's|^\./||' | sort | while read -r f; do sha256sum "$f"; done) |
		sha256sum | cut -d' ' -f1
}

case ${1:-build} in
check)
	[ "$(cat internal/web/dist/inputs.sha256)" = "$(digest)" ] && exit
	echo "console.sh: internal/web/dist was built from other sources than console/ holds: run 'make console' and commit the result" >&2
	exit 1
	;;
types | build) ;;
*)
	echo "console.sh: unknown word '$1'" >&2
	exit 2
	;;
esac

said=$(scripts/node.sh console)
bin=$(head -n 1 <<<"$said") place=$(tail -n 1 <<<"$said")
PATH="$bin:$place/node_modules/.bin:$PATH"
export PATH

if [ "${1:-}" = types ]; then
	rm -rf console/src/gen
	buf generate api --template console/buf.gen.yaml -o console/src/gen
fi

# Modules are looked for above the sources: they are built where the modules are.
work=$place/work-$$
trap 'rm -rf "$work"' EXIT
mkdir "$work"
cp -r console/. "$work/"
(cd "$work" && tsc --noEmit && vite build --logLevel warn)
rm -rf internal/web/dist
cp -r "$work/dist" internal/web/dist
digest >internal/web/dist/inputs.sha256
du -sb internal/web/dist | awk '{ print "console.sh: internal/web/dist, " int($1/1024) " KiB" }'
