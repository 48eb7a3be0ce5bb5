#!/usr/bin/env bash
# Starts the daemon that 'make build' built.
#
# On a terminal it runs in the foreground until Ctrl-C. Without one it is
# started in the background and tried out. With CI=true it also gets a state
# directory of its own and is stopped again at the end. Where a daemon runs
# already, it says so and is done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

palyra=$PWD/bin/palyra

# running says whether a daemon answers in this home.
running() {
	"$palyra" status >/dev/null 2>&1
}

if [ "${CI:-}" != true ]; then
	where=${PALYRA_HOME:-"the XDG directories, which 'palyra config path' lists"}
	down="${PALYRA_HOME:+PALYRA_HOME=$PALYRA_HOME }$palyra down"
	if running; then
		echo "run: a daemon runs already; its home is $where"
		echo "run: use it, or stop it with: $down"
		exit 0
	fi
fi

if [ "${CI:-}" != true ] && [ -t 0 ] && [ -t 1 ]; then
	cat <<TXT

Palyra runs in this terminal; Ctrl-C stops it. Its home is
$where. In a second one:

  export PATH="$PWD/bin:\$PATH"${PALYRA_HOME:+ PALYRA_HOME="$PALYRA_HOME"}
  palyra status
  palyra tools call palyra.echo --input '{"text":"hello"}'
  mkdir -p ~/palyra-demo && cd ~/palyra-demo && palyra workspace add .
  palyra tools call palyra.fs.write --input '{"path":"a.txt","content":"x\n"}'

The last one asks you in place; it can also be answered from a third terminal:

  palyra approvals list --pending
  palyra approvals decide ID allow

README.md goes on from there.

TXT
	exec bin/palyrad
fi

if [ "${CI:-}" = true ]; then
	PALYRA_HOME=$(mktemp -d)
	export PALYRA_HOME
	trap '"$palyra" down >/dev/null 2>&1 || true; rm -rf "$PALYRA_HOME"' EXIT
fi

step() {
	echo "run: $*"
	"$@"
}
step "$palyra" up --detach
step "$palyra" status
step "$palyra" tools call palyra.echo --input '{"text":"hello"}'
step "$palyra" journal verify
if [ "${CI:-}" = true ]; then
	echo "run: all well; the daemon is stopped"
else
	echo "run: all well; the daemon goes on. Stop it with: $down"
fi
