package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/client"
)

// A workspace that somebody swaps for a link while calls are launched in it: no
// launch ever sees what the link leads to.
func TestASwappedWorkspaceLeadsNowhere(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	owner := d.ownWork()
	d.mustStart(unlimited...)
	agent := d.client(client.AgentDoor)
	outside := filepath.Join(filepath.Dir(d.work), "outside")
	sub, link := filepath.Join(d.work, "sub"), filepath.Join(d.work, "link")
	for _, dir := range []string{outside, sub} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("top-secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	run := d.program("/bin/cat", filepath.Join(outside, "secret"), "secret")
	run.Workspace = sub
	d.allowed(run)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	ran := 0
	run.NoWait = true
	for end := time.Now().Add(20 * time.Second); ran < 10 && time.Now().Before(end); {
		r := <-propose(t.Context(), agent, run)
		if r.err != nil {
			t.Fatal(r.err)
		}
		if strings.Contains(r.out.Stdout+r.out.Stderr, "top-secret") {
			t.Errorf("a launch left the workspace: %+v", r.out)
			break
		}
		if r.out.Outcome == palyra.OutcomeFinished {
			ran++
		}
	}
	close(stop)
	<-done
	t.Logf("%d launches came through while the directory was being swapped", ran)
	d.verify()
}

// A program of the daemon's own user can change modes anywhere; Palyra's own
// files are closed again and the attempt is on record.
func TestOpenedKeysAreClosedAgain(t *testing.T) {
	d := newDaemon(t)
	if err := os.Chmod(d.home, 0o755); err != nil { // its owner's choice, and nobody's to change
		t.Fatal(err)
	}
	d.mustStart("PALYRA_PROCESS_TIER=b") // in tier C it cannot even be named
	key := filepath.Join(d.home, "operator.key")
	d.allowed(d.program("/bin/chmod", "0644", key))
	fi, err := os.Stat(key)
	if err != nil || fi.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if fi, err := os.Stat(d.home); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("the home: %v, %v", fi.Mode(), err)
	}
	alerts := 0
	for _, e := range d.entries() {
		if e.Kind == "alert.raised" && e.Body["reason_code"] == string(palyra.ReasonUnsafePermissions) {
			alerts++
		}
	}
	if alerts != 1 {
		t.Errorf("%d alerts", alerts)
	}
}

// Neither set-user-id nor set-group-id programs can be made.
func TestNoSetIDProgramsAreLeft(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	d.allowed(d.shell("cp /usr/bin/id a; cp /usr/bin/id b; chmod 4755 a; chmod 2755 b; install -m 6755 /usr/bin/id c; true"))
	for _, name := range []string{"a", "b", "c"} {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(d.work, name), &st); err == nil && st.Mode&(syscall.S_ISUID|syscall.S_ISGID) != 0 {
			t.Errorf("%s has mode %o", name, st.Mode)
		}
	}
}

// Input that is fed while a program runs is asked about every time.
func TestLiveInputIsAskedEveryTime(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	live := d.program("")
	live.Arguments = json.RawMessage(`{"command":"/usr/bin/wc","args":["-c"],"stdin_live":true}`)
	a, call, ch, err := question(t.Context(), agent, person, live)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeSession, 0)); err == nil {
		t.Log("a session's answer is taken as one for this call only, or refused below")
	}
	if a, err = person.Approval(t.Context(), a.ID); err == nil && a.Pending() {
		if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := agent.SendInput(t.Context(), call, palyra.Feed{Data: []byte("abc"), End: true}); err != nil &&
		!strings.Contains(err.Error(), "ended") {
		t.Log(err)
	}
	<-ch
	live.NoWait = true
	if r := <-propose(t.Context(), agent, live); r.err != nil || r.out.ReasonCode != palyra.ReasonApprovalNotAwaited {
		t.Errorf("the second time: %+v", r)
	}
}
