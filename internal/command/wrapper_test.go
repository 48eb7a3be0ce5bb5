package command

import (
	"slices"
	"strings"
	"testing"
)

// The words before the command that a wrapper runs are its own: what runs is the program behind them.
func TestWrappersLeadToTheProgram(t *testing.T) {
	for _, line := range []string{
		"taskset 0x1 rm x", "taskset -c 0,1 rm x", "chrt -f 10 rm x", "prlimit --nofile=64 -n rm x", "setpriv --reuid 5 --clear-groups rm x",
		"gosu nobody rm x", "setuidgid nobody rm x", "su-exec nobody:nogroup rm x", "pkexec --user root rm x",
		"unshare -r --root /r rm x", "nsenter -t 1 -m rm x", "bwrap --ro-bind / / --unshare-all --setenv A b rm x", "xargs --replace rm x", "parallel -a list rm x",
	} {
		words := strings.Fields(line)
		got := Analyse(Input{Argv: words, Workspace: "/w", Cwd: "/w"})
		if got.Understood && got.Class != "destructive" || !slices.Equal(got.Programs, []string{words[0], "rm"}) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
