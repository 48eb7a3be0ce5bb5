#!/usr/bin/env bash
# Looks for known vulnerabilities in what is compiled in.
#
#   VULNDB=https://vuln.go.dev scripts/vuln.sh          the live database
#   VULNDB=file:///path/to/unpacked/db scripts/vuln.sh  an offline copy
#
# Without VULNDB it says that nothing was looked for, and fails nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${VULNDB:-}" ]; then
	echo "govulncheck: not run; set VULNDB to a database (https://vuln.go.dev, or file:///… for an offline copy)"
	exit 0
fi
exec go tool -modfile=tools/vuln/go.mod govulncheck -db "$VULNDB" ./...
