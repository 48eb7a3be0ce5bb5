package command

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// The words before the command that a wrapper runs are its own: what runs is the program behind them.
func TestWrappersLeadToTheProgram(t *testing.T) {
	for _, line := range []string{
		"taskset 0x1 rm x", "taskset -c 0,1 rm x", "chrt -f 10 rm x", "prlimit --nofile=64 -n rm x", "setpriv --reuid 5 --clear-groups rm x",
		"gosu nobody rm x", "setuidgid nobody rm x", "su-exec nobody:nogroup rm x", "pkexec --user root rm x",
		"unshare -r --root /r rm x", "nsenter -t 1 -m rm x", "bwrap --ro-bind / / --unshare-all --setenv A b rm x", "xargs --replace rm x",
		"parallel -a list rm x",
	} {
		words := strings.Fields(line)
		got := Analyse(Input{Argv: words, Workspace: "/w", Cwd: "/w"})
		if got.Understood && got.Class != "destructive" || !slices.Equal(got.Programs, []string{words[0], "rm"}) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// What follows an option of xargs is a value to us exactly when it is one to the
// program: whoever takes the command for a value reads another command.
func TestXargsAsItIs(t *testing.T) {
	xargs, err := exec.LookPath("xargs")
	if err != nil {
		t.Fatalf("findutils is needed: %v", err)
	}
	for _, option := range []string{
		"-0", "-r", "-t", "-x", "-n", "-L", "-P", "-s", "-d", "-I", "-E", "-i", "-l", "-e", "-a", "--null", "--no-run-if-empty",
		"--verbose", "--exit",
		"--max-args", "--max-procs", "--max-lines", "--max-chars", "--delimiter", "--replace", "--eof", "--arg-file", "--process-slot-var",
	} {
		run := exec.Command(xargs, option, "echo", "ran")
		run.Stdin = strings.NewReader("x\n")
		out, _ := run.Output()
		takes := !strings.Contains(string(out), "ran")
		r := Analyse(Input{Argv: []string{"xargs", option, "echo", "ran"}})
		if read := !slices.Contains(r.Programs, "echo"); read != takes {
			t.Errorf("%s takes the next word: %v, and to us %v (%q)", option, takes, read, out)
		}
	}
}

// Newer versions of chrt take no number with some policies: the command is found
// either way.
func TestChrtWithoutANumber(t *testing.T) {
	for _, argv := range [][]string{{"chrt", "-i", "git", "push"}, {"chrt", "-i", "0", "git", "push"}, {"chrt", "-b", "dd", "of=/dev/sda"}} {
		if r := Analyse(Input{Argv: argv}); r.Class != palyra.CommandDestructive {
			t.Errorf("%q: %s, %q", argv, r.Class, r.Programs)
		}
	}
}
