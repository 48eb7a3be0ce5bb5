package sandboxtest

import (
	"strings"
	"sync"
	"testing"
)

// otherRuns: simultaneous runs of the same user cannot reach each other, and the end of one does not end another.
func otherRuns(t *testing.T, b *bench) {
	stays := b.start(t, order{argv: []string{"sh", "-c", "echo x > $HOME/live; exec " + b.probe + " stubborn stays"}})
	stays.ready(t)
	readable(t, stays.private+"/home/file", b.secret)
	pid := b.pidOf(t, "stubborn stays")
	b.deny(t, []denial{
		{"signal another run", "kill " + pid + " 0", "", works},
		{"trace another run", "ptrace " + pid, "", works},
		{"read memory of another run", "vmread " + pid, "", works},
		{"read the environment of another run", "proc " + pid + " environ", "", works},
		{"change limits of another run", "prlimit " + pid, "", works},
		{"read the home of another live run", "read " + stays.private + "/home/file", "", works},
		{"read what another live run keeps at home", "read $HOME/live", "", unshown},
	})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			p := b.start(t, order{argv: []string{b.probe, "spray", "3"}})
			p.Stop("enough", 0)
			if x, err := p.Wait(); err != nil || x.Stopped != "enough" {
				t.Errorf("stopped %q, %v", x.Stopped, err)
			}
		})
	}
	all.Wait()
	if got := b.pidOf(t, "stubborn stays"); got != pid {
		t.Errorf("the run that was not stopped is %s, was %s", got, pid)
	}
	stays.Stop("its own", 0)
	if e := stays.wait(t); e.Stopped != "its own" || e.Signal != "SIGKILL" {
		t.Errorf("stopped %q, signal %q", e.Stopped, e.Signal)
	}
}

// pidOf finds the one process of the bench with these arguments.
func (b *bench) pidOf(t *testing.T, args string) string {
	t.Helper()
	var found []string
	for _, p := range left(t, b.mark) {
		if strings.Contains(p, b.probe+" "+args) {
			found = append(found, strings.Fields(p)[0])
		}
	}
	if len(found) != 1 {
		t.Fatalf("%q: processes %v", args, found)
	}
	return found[0]
}
