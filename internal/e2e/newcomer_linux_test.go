package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
)

// ran runs a command and returns its exit code and what it printed.
func ran(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// What is not kept says why, what to do, and where it is: a limit by the setting that raises it, a conflict by the files.
func TestWhatIsNotKeptSaysWhy(t *testing.T) {
	d := newDaemon(t)
	as := d.ordinary(append([]string{"PALYRA_PROCESS_STAGE_BYTES=2097152", "PALYRA_PROCESS_STAGE_NAMES=50"}, shipped...)...)
	if out, err := as("palyra", "workspace", "add", d.work).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for script, setting := range map[string]string{
		"head -c 5000000 /dev/zero > big":                               "process.stage_bytes",
		"i=0; while [ $i -lt 100 ]; do : > f$i; i=$((i+1)); done; true": "process.stage_names",
	} {
		code, _, said := ran(t, as("palyra", "exec", "--tier", "c", "--", "sh", "-c", script))
		if code != palyra.ExitRefused || !strings.Contains(said, "have "+setting+" raised") || strings.Contains(said, "in part") {
			t.Errorf("%s: %d %s", setting, code, said)
		}
	}
	if left, err := os.ReadDir(d.work); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}

	const waits = "trap 'exit 0' USR1; echo mine > c; echo ready; while :; do sleep 0.1; done"
	run := as("palyra", "exec", "--tier", "c", "--", "sh", "-c", waits)
	stdout, err := run.StdoutPipe()
	var said bytes.Buffer
	run.Stderr = &said
	if err := errors.Join(err, run.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v: %s", line, err, &said)
	}
	d.put("c", "theirs")
	if err := run.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	call := strings.Fields(strings.SplitN(said.String(), "palyra: call ", 2)[1])[0]
	if code := run.ProcessState.ExitCode(); code != palyra.ExitRefused || !strings.Contains(said.String(), "effects_conflict") {
		t.Fatalf("%d %s", code, &said)
	}
	_, _, why := ran(t, as("palyra", "changes", call))
	if !strings.Contains(why, "somebody else changed the same files") || !strings.Contains(why, "quarantine") {
		t.Errorf("changes: %s", why)
	}
	boxes, err := filepath.Glob(filepath.Join(d.home, "quarantine", call, "run-*"))
	if err != nil || len(boxes) != 1 {
		t.Fatalf("%v, %v", boxes, err)
	}
	open := as("/bin/sh", "-c", "chmod u+rx "+boxes[0]+" && cat "+boxes[0]+"/item")
	if out, err := open.CombinedOutput(); err != nil || string(out) != "mine\n" {
		t.Errorf("%s, %v", out, err)
	}
}

// A refused call ends the command with a code of its own, and a file of any name can be read by the text that lists give.
func TestCallsByHand(t *testing.T) {
	d := newDaemon(t)
	as := d.ordinary(shipped...)
	if out, err := as("palyra", "workspace", "add", d.work).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	call := func(tool string, input any) (code int, o palyra.Outcome) {
		t.Helper()
		code, said, errs := ran(t, as("palyra", "tools", "call", tool, "--json", "--no-wait", "--input", quoteJSON(t, input)))
		if err := json.Unmarshal([]byte(said), &o); err != nil {
			t.Fatalf("%s: %v: %s%s", tool, err, said, errs)
		}
		return code, o
	}
	for tool, want := range map[string]int{"palyra.fs.read": 126, "palyra.nothing": 126, "palyra.fs.list": 0} {
		if code, o := call(tool, map[string]any{}); code != want || o.ExitCode != want {
			t.Errorf("%s: %d, %+v", tool, code, o)
		}
	}
	if code, o := call("palyra.fs.write", map[string]any{"path": ".envrc", "content": "x"}); code != 4 {
		t.Errorf("asked: %d, %+v", code, o)
	}

	code, _, said := ran(t, as("palyra", "exec", "--tier", "c", "--", "sh", "-c", `printf content > "$(printf 'raw\377 "x"')"`))
	if code != 0 {
		t.Fatal(said)
	}
	_, o := call("palyra.fs.list", map[string]any{})
	var list struct{ Entries []struct{ Path string } }
	if err := json.Unmarshal(o.Output, &list); err != nil || len(list.Entries) != 1 {
		t.Fatalf("%s, %v", o.Output, err)
	}
	code, o = call("palyra.fs.read", map[string]any{"path": list.Entries[0].Path})
	if code != 0 || !strings.Contains(string(o.Output), `"content"`) || !strings.Contains(string(o.Output), "content") {
		t.Errorf("%q: %d %+v", list.Entries[0].Path, code, o)
	}
}

// The doctor says where runs are staged, and why where they are not.
func TestDoctorSaysWhatIsStaged(t *testing.T) {
	for setting, want := range map[string]string{"all": "staged: what a run changes", "inputs": "not staged, runs write to it directly: "} {
		d := newDaemon(t)
		as := d.ordinary(append([]string{"PALYRA_PROCESS_STAGE=" + setting}, shipped...)...)
		if out, err := as("palyra", "workspace", "add", d.work).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		code, said, errs := ran(t, as("palyra", "sandbox", "doctor", "--tier", "c"))
		if code != 0 || !strings.Contains(said, "\nStages\n  "+d.work+"  "+want) {
			t.Errorf("%s: %d\n%s%s", setting, code, said, errs)
		}
	}
}

// Whoever is asked about what a run changed sees it in place, whole or of a file, and then the question again.
func TestDiffInPlace(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(shipped...)
	if out, err := d.palyra("workspace", "add", d.work).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const asks = `diff \[FILE\] to see them`
	run := []string{"exec", "--tier", "c", "--workspace", d.work, "--", "sh", "-c", "echo one > .envrc; echo two > b"}
	s := atTerminal(t, d.palyra(run...))
	s.find(asks)
	s.enter("diff b")
	s.find(`\+two`)
	s.find("Keep\\?")
	s.find(asks)
	if strings.Contains(s.Seen.String(), "+one") {
		t.Errorf("more than the file:\n%s", s.Seen.String())
	}
	s.enter("diff")
	s.find(`\+one`)
	s.find(asks)
	s.enter("deny")
	if code, seen := s.end(); code != palyra.ExitRefused {
		t.Errorf("exit %d\n%s", code, seen)
	}
	if _, err := os.Lstat(filepath.Join(d.work, "b")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
