#!/usr/bin/env bash
# Checks that what a target needs is here. What is missing is installed where
# that is safe (Debian or Ubuntu, as root) and named exactly everywhere else.
#
#   scripts/setup.sh            what building and running need
#   scripts/setup.sh test       also the programs that tests run in the sandbox
#   scripts/setup.sh race       also a C compiler, which the race detector needs
#   scripts/setup.sh gen        also Node, which the protocol generator needs
#   scripts/setup.sh srt        also what srt needs, which benchmarks measure beside Palyra
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=()

# install PACKAGE; the lists are fetched where they are missing or out of date.
install() {
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1" >/dev/null 2>&1 && return
	apt-get update >/dev/null 2>&1 &&
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1" >/dev/null 2>&1
}

# need PROGRAM PACKAGE REASON
need() {
	command -v "$1" >/dev/null 2>&1 && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "setup: installing $2 ($3)" >&2
		if install "$2" && command -v "$1" >/dev/null 2>&1; then
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

# Skills need a C compiler to be built. Nothing else does, so a machine without one is told and goes on.
if [ "$(uname -s)" = Linux ] && ! command -v "${CC:-gcc}" >/dev/null 2>&1; then
	need gcc gcc "skills"
	if [ ${#missing[@]} -gt 0 ] && [[ ${missing[-1]} == gcc,* ]]; then
		echo "setup: without a C compiler skills are off; on Debian or Ubuntu: sudo apt-get install -y gcc libc6-dev" >&2
		unset 'missing[-1]'
	fi
fi
if [ "$(uname -s)" = Linux ]; then
	need /usr/bin/bwrap bubblewrap "tier C of the sandbox"
fi

# What tests do inside the sandbox is what developers do there.
need_tests() {
	[ "$(uname -s)" = Linux ] || return 0
	need gcc gcc "skills, which tests build"
	need unshare util-linux "tests that fill a disk of their own"
	need ip iproute2 "tests with networks of their own"
	need /usr/bin/make make "everyday work in the sandbox"
	need /usr/bin/python3 python3 "everyday work in the sandbox"
	need_venv
	need_requests
	need /usr/bin/pip3 python3-pip "tests of lent secrets"
	need /usr/bin/gh gh "tests of lent secrets"
	need /usr/bin/node nodejs "everyday work in the sandbox"
	need /usr/bin/npm npm "everyday work in the sandbox"
	need /usr/bin/rg ripgrep "everyday work in the sandbox"
	need /usr/bin/curl curl "tests of the egress guard"
	need dbus-run-session dbus "tests of the vault's keepers"
	need /usr/sbin/sshd openssh-server "tests of keys that are lent"
	need /usr/bin/gpg gnupg "tests of keys that are lent"
	need gnome-keyring-daemon gnome-keyring "tests of the vault's keepers"
	need chromium chromium "tests of the console"
	need_botocore
	need_wasi
	need_oracle
	need_node
}

# Skills in C are built by clang for wasm32-wasi. Whether that works is tried: it takes four packages.
need_wasi() {
	local p packages=(clang lld wasi-libc libclang-rt-dev-wasm32)
	builds_wasi && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "setup: installing ${packages[*]} (skills in C)" >&2
		for p in "${packages[@]}"; do install "$p" || break; done
		builds_wasi && return
	fi
	missing+=("clang that builds for wasm32-wasi, for skills in C; on Debian or Ubuntu: sudo apt-get install -y ${packages[*]}")
}

builds_wasi() {
	echo 'int main(void) { return 0; }' | clang --target=wasm32-wasi -O2 -x c - -o /dev/null >/dev/null 2>&1
}

# The client of AWS for Python, by the package of the system: rooms have nothing else.
need_botocore() {
	/usr/bin/python3 -c 'import botocore' 2>/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && install python3-botocore; then
		return
	fi
	missing+=("botocore, for tests of signatures of AWS; on Debian or Ubuntu: sudo apt-get install -y python3-botocore")
}

# Debian keeps what makes virtual environments of Python apart from Python.
need_venv() {
	/usr/bin/python3 -c 'import ensurepip' 2>/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && install python3-venv; then
		return
	fi
	missing+=("virtual environments of Python, for everyday work in the sandbox; on Debian or Ubuntu: sudo apt-get install -y python3-venv")
}

need_requests() {
	/usr/bin/python3 -c 'import requests' 2>/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && install python3-requests; then
		return
	fi
	missing+=("the library requests of Python, for tests of lent secrets; on Debian or Ubuntu: sudo apt-get install -y python3-requests")
}

# The Rust engine of Cedar, which tests compare ours with: one npm package, by a
# frozen lock. pnpm runs no install scripts.
need_oracle() {
	local dir=internal/policy/corpustest/rust pnpm=pnpm@12.18.0 said
	cmp -s "$dir/pnpm-lock.yaml" "$dir/node_modules/.installed" && return
	echo "setup: installing cedar-wasm (the engine that policy is compared with)" >&2
	if said=$(npx --yes "$pnpm" install --frozen-lockfile --ignore-workspace --dir "$dir" 2>&1); then
		cp "$dir/pnpm-lock.yaml" "$dir/node_modules/.installed"
		return
	fi
	echo "$said" | tail -n 5 >&2
	missing+=("cedar-wasm, for tests of policy; run: npx --yes $pnpm install --frozen-lockfile --ignore-workspace --dir $dir")
}

# The official MCP programs that tests run, and the Node they need.
need_node() {
	command -v npm >/dev/null 2>&1 || return 0 # it is named already
	scripts/node.sh internal/e2e/mcp-node >/dev/null ||
		missing+=("Node 24 and the official MCP programs, for tests of MCP: scripts/node.sh could not install them")
	scripts/node.sh internal/e2e/devcontainer-node >/dev/null ||
		missing+=("the program that packs features of development containers, for the test of ours: scripts/node.sh could not install it")
	scripts/node.sh console >/dev/null ||
		missing+=("what checks pages for people who cannot see or point, for tests of the console: scripts/node.sh could not install it")
	scripts/node.sh internal/sandbox/bubble/testdata/typescript >/dev/null ||
		missing+=("the TypeScript compiler, for everyday work in the sandbox: scripts/node.sh could not install it")
}

for want in "$@"; do
	case $want in
	test) need_tests ;;
	race) need gcc gcc "the race detector" ;;
	gen) need npx npm "the protocol generator" ;;
	srt)
		need socat socat "srt, a sandbox that is measured beside Palyra"
		need rg ripgrep "srt, a sandbox that is measured beside Palyra"
		;;
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
