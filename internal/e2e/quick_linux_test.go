package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// ids differ between two calls that are the same.
var ids = regexp.MustCompile(`01[0-9A-Z]{24}`)

// byProgram is what one of the command's two programs did with a command line in a directory.
func (d *daemon) byProgram(program, dir string, args ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin(d.t, program), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PALYRA_HOME="+d.home, "PWD="+dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		d.t.Fatal(err)
	}
	return ids.ReplaceAllString(strings.Join([]string{cmd.ProcessState.String(), out.String(), errs.String()}, "|"), "ID")
}

// count is how many calls there are.
func (d *daemon) count() int {
	d.t.Helper()
	page, err := d.client(client.OperatorDoor).Calls(d.t.Context(), client.CallFilter{Limit: 500})
	if err != nil {
		d.t.Fatal(err)
	}
	return len(page.Calls)
}

// The small program works in the workspace that the daemon knows at that moment, whether it finds the list or asks.
func TestTheSmallProgramFindsTheWorkspace(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(shipped...)
	who := d.ownWork()
	d.inWorkspace()
	sub := filepath.Join(d.work, "sub")
	if err := errors.Join(os.Mkdir(sub, 0o777), os.Chown(sub, who, who)); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(d.home, "run", "workspaces")
	runsIn := func(step, workspace string) {
		t.Helper()
		for _, way := range []string{"by the list", "asked"} {
			if got := d.byProgram("palyra", sub, "exec", "--", "pwd"); got != "exit status 0|"+sub+"\n|" {
				t.Errorf("%s, %s: %q", step, way, got)
			}
			page, err := d.client(client.OperatorDoor).Calls(t.Context(), client.CallFilter{Limit: 1})
			if err != nil || len(page.Calls) != 1 || page.Calls[0].Plan.Workspace.Path != workspace {
				t.Errorf("%s, %s: not in %s: %+v %v", step, way, workspace, page.Calls, err)
			}
			if way == "asked" {
				continue
			}
			if err := os.Remove(list); err != nil {
				t.Errorf("%s: there was no list: %v", step, err)
			}
		}
	}
	change := func(args ...string) {
		t.Helper()
		if out := d.byProgram("palyra", d.work, args...); !strings.HasPrefix(out, "exit status 0|") {
			t.Fatal(out)
		}
	}
	runsIn("as it was", d.work)
	change("workspace", "add", sub)
	runsIn("added", sub)
	change("workspace", "remove", sub)
	runsIn("removed", d.work)
	d.kill()
	if err := os.WriteFile(list, []byte("of another daemon"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.mustStart(shipped...)
	runsIn("started again", d.work)
}

// The small program of the command prints and returns what the full one does, makes one call of it, and leaves to the
// full one what it cannot.
func TestBothProgramsAreOneCommand(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(shipped...)
	d.ownWork()
	d.inWorkspace()
	sub := filepath.Join(d.work, "sub")
	if err := os.Mkdir(sub, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir  string
		args []string
		want string
	}{
		"nothing":      {d.work, []string{"true"}, "exit status 0||"},
		"its own code": {d.work, []string{"sh", "-c", "exit 7"}, "exit status 7||"},
		"both streams": {d.work, []string{"sh", "-c", "echo out; echo err >&2"}, "exit status 0|out\n|err\n"},
		"bytes":        {d.work, []string{"printf", `\377\000\033[2J`}, "exit status 0|\xff\x00\x1b[2J|"},
		"words":        {d.work, []string{"printf", "%s.", "<a&b>", "\"\\", "ü\n", ""}, "exit status 0|<a&b>.\"\\.ü\n..|"},
		"a directory":  {sub, []string{"pwd"}, "exit status 0|" + sub + "\n|"},
		"slow":         {d.work, []string{"sh", "-c", "echo a; sleep 0.5; echo b; exit 3"}, "exit status 3|a\nb\n|"},
		"long":         {d.work, []string{"seq", "100000"}, ""},
		"longer":       {d.work, []string{"seq", "1000000"}, ""},
		"no program":   {d.work, []string{"no-such-program"}, ""},
		"no place":     {d.home, []string{"true"}, ""},
		"shell's 130":  {d.work, []string{"sh", "-c", "exit 130"}, ""},
	} {
		before := d.count()
		small := d.byProgram("palyra", c.dir, append([]string{"exec", "--"}, c.args...)...)
		one := d.count() - before
		full := d.byProgram("palyra-full", c.dir, append([]string{"exec", "--"}, c.args...)...)
		if small != full || c.want != "" && small != c.want {
			t.Errorf("%s:\n%.500q\n%.500q", name, small, full)
		}
		if one != 1 && name != "no place" {
			t.Errorf("%s: %d calls", name, one)
		}
	}
	for _, flag := range [][]string{{"--home", d.home}, {"--home=" + d.home}} {
		for _, last := range []string{"pwd", "sleep 0.3; pwd"} {
			args := append(slices.Clone(flag), "exec", "--", "sh", "-c", last)
			away := exec.Command(bin(t, "palyra"), args...)
			away.Dir, away.Env = d.work, append(os.Environ(), "PALYRA_HOME="+t.TempDir())
			if out, err := away.Output(); err != nil || string(out) != d.work+"\n" {
				t.Errorf("%q: %q, %v", args, out, err)
			}
		}
	}
	for _, args := range [][]string{{"version"}, {"status", "--json"}, {"exec", "--help"}, {"nonsense"}, {}, {"exec", "--", "\xff"}} {
		small, full := d.byProgram("palyra", d.work, args...), d.byProgram("palyra-full", d.work, args...)
		if args = append(args, ""); args[0] != "status" && small != full || len(small) < 20 {
			t.Errorf("%q:\n%s\n%s", args, small, full)
		}
	}
	d.stop()
	small, full := d.byProgram("palyra", d.work, "exec", "--", "true"), d.byProgram("palyra-full", d.work, "exec", "--", "true")
	if small != full || !strings.Contains(small, "no daemon listens") {
		t.Errorf("%s\n%s", small, full)
	}
}

// A question is put once and its answer counts; a signal that comes at once ends the call, and so does the death of the
// program: nothing is left behind that nobody waits for.
func TestTheSmallProgramLeavesWhatWaits(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(unlimited...) // it asks about everything
	d.ownWork()
	d.inWorkspace()
	person := d.client(client.OperatorDoor)
	start := func() (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(bin(t, "palyra"), "exec", "--", "sh", "-c", "echo answered; kill -0 $$")
		cmd.Dir, cmd.Env = d.work, append(os.Environ(), "PALYRA_HOME="+d.home, "PWD="+d.work)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &out
	}
	cmd, out := start()
	ctx, cancel := context.WithTimeout(t.Context(), waitMost)
	defer cancel()
	if _, err := d.decideNext(ctx, palyra.AnswerAllow); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "answered\n") || d.count() != 1 {
		t.Errorf("%v, %d calls, %s", err, d.count(), out)
	}
	for i, after := range []time.Duration{0, 3, 10, 30, 100, 300, 10, 30, 100, 300} {
		how := syscall.SIGINT
		if i > 5 {
			how = syscall.SIGKILL
		}
		cmd, out := start()
		<-time.After(after * time.Millisecond)
		if err := cmd.Process.Signal(how); err != nil {
			t.Fatal(err)
		}
		again := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGINT) }) // see quick.catch
		if err := cmd.Wait(); err == nil {
			t.Errorf("%d ms: not ended: %s", after, out)
		}
		again.Stop()
		list, err := person.Approvals(t.Context(), client.ApprovalFilter{Pending: true})
		for i := 0; err == nil && len(list.Approvals) > 0 && i < 50; i++ {
			<-time.After(100 * time.Millisecond)
			list, err = person.Approvals(t.Context(), client.ApprovalFilter{Pending: true})
		}
		if err != nil || len(list.Approvals) > 0 {
			t.Errorf("%d ms: %d questions are left, %v: %s", after, len(list.Approvals), err, out)
		}
	}
}

// Without the full program the small one says what is missing, and does what it can.
func TestTheFullProgramIsMissing(t *testing.T) {
	d := newDaemon(t)
	raw, err := os.ReadFile(bin(t, "palyra"))
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "palyra")
	if err := os.WriteFile(alone, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(alone, "--home", d.home, "status").CombinedOutput()
	missing := "palyra-full is not installed beside palyra\n  remedy: install it in " + filepath.Dir(alone)
	if err == nil || !strings.Contains(string(out), missing) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command(alone, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "palyra ") {
		t.Errorf("%v: %s", err, out)
	}
}

// Callers who begin at once, on a daemon that has run nothing yet, each get what they asked for, and none of them waits
// for another's room.
func TestCallersBeginAtOnce(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(shipped...)
	d.ownWork()
	d.inWorkspace()
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			for i := range 15 {
				want := fmt.Sprintf("exit status 0|%d %d\n|", caller, i)
				if got := d.byProgram("palyra", d.work, "exec", "--", "echo", strconv.Itoa(caller), strconv.Itoa(i)); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		})
	}
	all.Wait()
}
