#!/bin/sh
# Starts the daemon with the container, as its user, and says what holds programs there.
here=$(cd "$(dirname "$0")" && pwd)
[ "$(cat "$here/start")" = true ] || exit 0
"$here/../../bin/palyra" up --detach || exit 1
"$here/../../bin/palyra" sandbox doctor --tier c >/dev/null 2>&1 || echo "palyra: tier C cannot be held in this container, so what needs it is refused: see 'palyra sandbox doctor', and docs/agents.md on development containers" >&2
exit 0
