package sandboxtest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// daemonVar makes a process of the suite a daemon that starts a program and
// waits to be killed. It holds the bench, as JSON.
const daemonVar = "PALYRA_SANDBOXTEST_DAEMON"

// life is what the daemon gets from the suite.
type life struct {
	State, Base, Workspace, Probe string
	UID, GID                      int
	Args                          []string
}

// playDaemon is the daemon's part; it returns only when this is not one.
func playDaemon(t *testing.T, f Factory) bool {
	text := os.Getenv(daemonVar)
	if text == "" {
		return false
	}
	var l life
	check(t, json.Unmarshal([]byte(text), &l))
	b := &bench{
		Factory: f, who: person{uid: l.UID, gid: l.GID}, state: l.State, base: l.Base, ws: l.Workspace, probe: l.Probe,
		backend: f.Open(t, l.State),
	}
	p := b.start(t, order{argv: append([]string{l.Probe}, l.Args...)})
	p.ready(t)
	_, _ = os.Stdout.WriteString("started\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
	return true
}

// daemonDeath: a killed daemon takes its runs with it, and its next life only has to remove what does not run.
func daemonDeath(t *testing.T, b *bench) {
	b.done(t, b.backend) // a state has one daemon
	for _, args := range []string{"stubborn", "spray 20", "hop 4 4000 stay"} {
		cmd, in := b.daemon(t, strings.Fields(args))
		if len(left(t, b.mark)) == 0 {
			t.Fatalf("control: %s: nothing runs", args)
		}
		check(t, cmd.Process.Kill())
		_ = cmd.Wait()
		_ = in.Close()
		begun := time.Now()
		eventually(t, args+": nothing is left after the daemon's death", func() bool { return len(left(t, b.mark)) == 0 })
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("%s: its end took %v", args, d)
		}
		waitChildless(t) // what the daemon left became ours, or its keeper is gone
		next := b.Open(t, b.state)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		check(t, next.Recover(ctx))
		cancel()
		b.done(t, next)
	}
}

// daemon starts one, with a program inside that is ready.
func (b *bench) daemon(t *testing.T, args []string) (*exec.Cmd, io.Closer) {
	t.Helper()
	text, err := json.Marshal(life{b.state, b.base, b.ws, b.probe, b.who.uid, b.who.gid, args})
	check(t, err)
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+top+"$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), daemonVar+"="+string(text), builtVar+"="+builtDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := bufio.NewReader(out)
	var said strings.Builder
	for {
		line, err := r.ReadString('\n')
		said.WriteString(line)
		if line == "started\n" {
			return cmd, in
		}
		if err != nil {
			t.Fatalf("the daemon: %v\n%s", err, said.String())
		}
	}
}
