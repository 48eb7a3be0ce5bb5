//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/client"
)

// A full disk under the state refuses calls with the reason, runs nothing, and
// needs no restart when space returns. The disk is a small tmpfs that only the
// daemon sees.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: an ordinary user can mount a small disk only in a user namespace, where the directories above it belong " +
			"to nobody and the daemon refuses them")
	}
	d := newDaemon(t)
	disk := filepath.Join(d.work, "..", "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	d.env = unlimited
	d.mustStartOn(disk)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if _, err := agent.Call(t.Context(), echo("room"), nil); err != nil {
		t.Fatal(err)
	}
	ch := propose(t.Context(), agent, write(d.work, "later.txt", "x"))
	a := d.pending(person)

	filler := fmt.Sprintf("/proc/%d/root%s/filler", d.cmd.Process.Pid, disk)
	fill(t, filler)
	refused := false
	for i := range 200 { // what was reserved before may take a few more
		_, err := agent.Call(t.Context(), echo(strings.Repeat("x", 4000+i)), nil)
		if err == nil {
			continue
		}
		e := palyra.AsError(err)
		if e.Code != palyra.Unavailable || e.Reason != palyra.ReasonDiskFull || e.Remedy == "" {
			t.Fatalf("the refusal does not say why: %+v", e)
		}
		refused = true
		break
	}
	if !refused {
		t.Fatal("a full disk refused nothing")
	}
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("a decision that cannot be kept: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.work, "later.txt")); err == nil {
		t.Error("it ran without a record")
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if out, err := agent.Call(t.Context(), echo("room again"), nil); err != nil || out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("after space returned: %+v, %v\n%s", out, err, d.log)
	}
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	d.verify()
}

// A daemon whose disk is full says so, and can be stopped as always: without a
// record of it, and without a loss.
func TestStopOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: an ordinary user can mount a small disk only in a user namespace, where the directories above it belong " +
			"to nobody and the daemon refuses them")
	}
	d := newDaemon(t)
	disk := filepath.Join(d.work, "..", "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	d.env = unlimited
	d.mustStartOn(disk)
	fill(t, fmt.Sprintf("/proc/%d/root%s/filler", d.cmd.Process.Pid, disk))
	agent := d.client(client.AgentDoor)
	for i := range 200 { // what was reserved before may take a few more
		if _, err := agent.Call(t.Context(), echo(strings.Repeat("x", 4000+i)), nil); err != nil {
			break
		}
	}
	if out := d.mustPalyra("status"); !strings.Contains(out, "PROBLEM: the disk under") {
		t.Errorf("the status does not say it:\n%s", out)
	}
	out := d.mustPalyra("down")
	if !strings.Contains(out, "SIGTERM") || !strings.Contains(out, "has stopped") {
		t.Errorf("%s", out)
	}
	<-d.done
}

// Whoever is in another namespace of processes, with or without a /proc of its own,
// stops nobody: the daemon's number is another process's there, or nobody's.
func TestStopFromAnotherNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root gives a process the number it wants")
	}
	d := newDaemon(t)
	d.mustStart()
	key := filepath.Join(d.home, "operator.key")
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	const down = `echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid
sleep 600 & twin=$!
"$2" down --timeout 5s; echo "exit $?"
kill -0 $twin && echo "$twin lives"
kill -KILL $twin`
	for name, script := range map[string]string{"no key": down, "no sockets": `mv "$PALYRA_HOME/run" "$PALYRA_HOME/away"` + "\n" + down +
		"\n" + `mv "$PALYRA_HOME/away" "$PALYRA_HOME/run"`} {
		for _, proc := range [][]string{nil, {"--mount-proc"}} {
			args := append([]string{"--pid", "--fork"}, proc...)
			cmd := exec.Command("unshare", append(args, "sh", "-c", script, "sh", strconv.Itoa(d.cmd.Process.Pid), bin(t, "palyra"))...)
			cmd.Env = append(os.Environ(), "PALYRA_HOME="+d.home)
			out, err := cmd.CombinedOutput()
			said := string(out)
			if err != nil || !strings.Contains(said, fmt.Sprintf("%d lives", d.cmd.Process.Pid)) || strings.Contains(said, "exit 0") ||
				!strings.Contains(said, "was started") {
				t.Errorf("%s, %v: %v\n%s", name, proc, err, said)
			}
			if _, err := d.client(client.AgentDoor).Status(t.Context()); err != nil {
				t.Fatalf("%s, %v: the daemon: %v", name, proc, err)
			}
		}
	}
}

// The daemon's own user stops it whatever became of the key, the sockets or the
// directory they are in; the journal says that nobody signed it.
func TestStopWithoutAKey(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	key := filepath.Join(d.home, "operator.key")
	for _, c := range []struct {
		name        string
		spoil, mend func() error
	}{
		{"signed", func() error { return nil }, func() error { return nil }},
		{"key gone", func() error { return os.Rename(key, key+".away") }, func() error { return os.Rename(key+".away", key) }},
		{"key open to others", func() error { return os.Chmod(key, 0o644) }, func() error { return os.Chmod(key, 0o600) }},
		{
			"key damaged", func() error { return errors.Join(os.Rename(key, key+".away"), os.WriteFile(key, []byte("{"), 0o600)) },
			func() error { return os.Rename(key+".away", key) },
		},
		{"sockets gone", func() error { return os.RemoveAll(filepath.Join(d.home, "run")) }, func() error { return nil }},
	} {
		d.mustStart()
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		out := d.mustPalyra("down")
		<-d.done
		if err := c.mend(); err != nil {
			t.Fatal(err)
		}
		signed := c.name == "signed"
		if signed == strings.Contains(out, "SIGTERM") || !strings.Contains(out, "has stopped") {
			t.Errorf("%s:\n%s", c.name, out)
		}
		d.mustStart()
		var last palyra.DaemonStopped
		for _, e := range d.entries() {
			if e.Kind == last.Kind() {
				last.How, _ = e.Body["how"].(string)
				by, _ := e.Body["by"].(string)
				last.By = palyra.Principal(by)
			}
		}
		if want := map[bool]string{true: "signed", false: "signal"}[signed]; last.How != want || signed == (last.By == "") {
			t.Errorf("%s: the journal says %+v", c.name, last)
		}
		d.stop()
	}
}

// mustStartOn runs the daemon with its state on a tmpfs of its own.
func (d *daemon) mustStartOn(disk string) {
	d.t.Helper()
	unshare := []string{"unshare", "--mount"}
	script := `mount -t tmpfs -o size=4m,mode=0700 tmpfs "$1" && exec "$2" --set store.path="$1/state.db"`
	d.command(append(unshare, "sh", "-c", script, "sh", disk, bin(d.t, "palyrad"))...)
	if !d.serving() {
		d.t.Fatalf("the daemon died:\n%s", d.log)
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for chunk := make([]byte, 1<<16); len(chunk) > 0; {
		_, err := f.Write(chunk)
		if errors.Is(err, syscall.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
