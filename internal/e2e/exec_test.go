//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// someone is an ordinary user's uid and gid; no account is needed for it.
const someone = 23456

// ownWork gives the workspace to an ordinary user where the tests are root, so
// that what is run there must not be root's.
func (d *daemon) ownWork() int {
	d.t.Helper()
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	if err := os.Chown(d.work, someone, someone); err != nil {
		d.t.Fatal(err)
	}
	return someone
}

// program proposes a program.
func (d *daemon) program(command string, args ...string) client.CallRequest {
	raw, _ := json.Marshal(map[string]any{"command": command, "args": append([]string{}, args...)})
	return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI}
}

// shell proposes a line for /bin/sh.
func (d *daemon) shell(line string) client.CallRequest { return d.program("/bin/sh", "-c", line) }

// seenShell is shell for a line that is watched, through the workspace, while it runs.
func (d *daemon) seenShell(line string) client.CallRequest {
	r := d.shell(line)
	r.Arguments = append(bytes.TrimSuffix(r.Arguments, []byte("}")), `,"live":true}`...)
	return r
}

// allowed proposes a call, allows it for the session and returns its outcome.
func (d *daemon) allowed(r client.CallRequest) (palyra.Outcome, palyra.Approval) {
	d.t.Helper()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	a, _, ch, err := question(d.t.Context(), agent, person, r)
	if err != nil {
		d.t.Fatal(err)
	}
	scope := palyra.ScopeSession
	if a.Need.Fresh { // no wider one is taken
		scope = palyra.ScopeOnce
	}
	settled, err := person.Decide(d.t.Context(), allow(a, scope, 0))
	if err != nil {
		d.t.Fatal(err)
	}
	end := <-ch
	if end.err != nil {
		d.t.Fatalf("%v\n%s", end.err, d.log)
	}
	return end.out, settled
}

// predicate reads what an outcome's attestation says.
func predicate(t testing.TB, out palyra.Outcome) palyra.Predicate {
	t.Helper()
	if out.Attestation == nil {
		t.Fatalf("not attested: %+v", out)
	}
	raw, err := base64.StdEncoding.DecodeString(out.Attestation.Payload)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Predicate palyra.Predicate `json:"predicate"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s.Predicate
}

// The command of the issue, on the built binaries: it waits, is allowed, runs as
// the workspace's owner, and the attestation names what really held.
func TestExecWaitsRunsAndIsAttested(t *testing.T) {
	t.Parallel()
	t.Run("tier b", func(t *testing.T) { execIsAttested(t, "b", "sandbox_tier_b", "no_network") })
	t.Run("tier c", func(t *testing.T) { execIsAttested(t, "c", "sandbox_tier_c_linux_bubblewrap", "net_namespace") })
}

func execIsAttested(t *testing.T, tier, executor, network string) {
	d := newDaemon(t)
	owner := d.ownWork()
	d.mustStart()
	person := d.client(client.OperatorDoor)
	touch := []string{"exec", "--json", "--tier", tier, "--workspace", d.work, "--", "/usr/bin/touch", "made-by-palyra"}

	cmd := d.palyra(touch...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	var event struct {
		Event    string            `json:"event"`
		Approval palyra.ApprovalID `json:"approval_id"`
		Plan     palyra.Digest     `json:"plan_digest"`
	}
	if err != nil || json.Unmarshal([]byte(line), &event) != nil || event.Event != "approval_requested" {
		t.Fatalf("stderr while it waits: %q, %v", line, err)
	}
	made := filepath.Join(d.work, "made-by-palyra")
	if _, err := os.Lstat(made); err == nil {
		t.Fatal("it ran before it was allowed")
	}
	decide := d.palyra("approvals", "decide", string(event.Approval), "allow", "--scope", "session", "--digest", string(event.Plan))
	if out, err := decide.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stdout.Bytes())
	}
	var out palyra.Outcome
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, stdout.Bytes())
	}
	fi, err := os.Lstat(made)
	if err != nil {
		t.Fatal(err)
	}
	if uid := int(fi.Sys().(*syscall.Stat_t).Uid); uid != owner {
		t.Errorf("the file belongs to uid %d, the workspace to %d", uid, owner)
	}
	p := predicate(t, out)
	if p.Executor != executor || string(p.Tier) != strings.ToUpper(tier) || p.Enforcement.Mode != "strict" {
		t.Errorf("attested: executor %q, tier %q, %+v", p.Executor, p.Tier, p.Enforcement)
	}
	for _, m := range []string{"no_new_privs", "seccomp", network, "private_tmp", "clean_env"} {
		if !slices.Contains(p.Enforcement.Mechanisms, m) {
			t.Errorf("the attestation does not name %s: %v", m, p.Enforcement.Mechanisms)
		}
	}
	if !slices.ContainsFunc(p.Enforcement.Mechanisms, func(m string) bool { return strings.HasPrefix(m, "landlock_abi_") }) ||
		p.Enforcement.Limits["memory"] == "" {
		t.Errorf("attested %+v", p.Enforcement)
	}
	checkEvidence(t, d, person, out)

	// The session's grant covers the same call and not another program.
	if said, err := d.palyra(touch...).Output(); err != nil || !strings.Contains(string(said), `"outcome":"finished"`) {
		t.Errorf("the same call again: %v, %s", err, said)
	}
	rm := d.palyra("exec", "--json", "--no-wait", "--workspace", d.work, "--", "/bin/rm", "made-by-palyra")
	said, err := rm.Output()
	if exit := (*exec.ExitError)(nil); !asExit(err, &exit) || exit.ExitCode() != 126 ||
		!strings.Contains(string(said), `"approval_not_awaited"`) {
		t.Errorf("rm under touch's grant: %v, %s", err, said)
	}
	if _, err := os.Lstat(made); err != nil {
		t.Error("rm ran")
	}
	d.verify()
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

// palyra is the command line on this daemon.
func (d *daemon) palyra(args ...string) *exec.Cmd {
	d.t.Helper()
	cmd := exec.Command(bin(d.t, "palyra"), args...)
	cmd.Env = append(os.Environ(), "PALYRA_HOME="+d.home)
	cmd.Dir = d.work
	return cmd
}

// What the plan binds and what changes between the answer and the launch: the
// call does not run.
func TestChangedBetweenAnswerAndLaunch(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	file := func(name, content string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(d.work, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(d.work, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	file("script.sh", "#!/bin/sh\necho one\n", 0o755)
	file("operand.sh", "echo one\n", 0o644)
	file("Makefile", "all:\n\techo one\n", 0o644)
	for _, dir := range []string{"here", "there", "room", "empty"} { // the last two for what is confirmed by its fingerprint
		if err := os.Mkdir(filepath.Join(d.work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(dir string) {
		t.Helper()
		if err := errors.Join(os.Remove(filepath.Join(d.work, dir)), os.Symlink("there", filepath.Join(d.work, dir))); err != nil {
			t.Fatal(err)
		}
	}
	cwd := d.program("/bin/pwd")
	cwd.Arguments = json.RawMessage(`{"command":"/bin/pwd","cwd":"here"}`)
	for name, c := range map[string]struct {
		call   client.CallRequest
		change func()
	}{
		"executable":               {d.program("./script.sh"), func() { file("script.sh", "#!/bin/sh\necho two\n", 0o755) }},
		"script operand":           {d.program("/bin/sh", "operand.sh"), func() { file("operand.sh", "echo two\n", 0o644) }},
		"Makefile":                 {d.program("make"), func() { file("Makefile", "all:\n\techo two\n", 0o644) }},
		"earlier makefile appears": {d.program("make", "-n"), func() { file("GNUmakefile", "all:\n\techo three\n", 0o644) }},
		"cwd":                      {cwd, func() { replace("here") }},
		"cwd of a room":            {d.inRoom(map[string]any{"live": true, "cwd": "room"}, "/bin/pwd"), func() { replace("room") }},
		"first makefile appears, in a room": {
			d.inRoom(map[string]any{"live": true, "cwd": "empty"}, "make", "-n"),
			func() { file("empty/Makefile", "all:\n\techo four\n", 0o644) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, _, ch, err := question(t.Context(), agent, person, c.call)
			if err != nil {
				t.Fatal(err)
			}
			c.change()
			defer os.Remove(filepath.Join(d.work, "GNUmakefile"))
			if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
				t.Fatal(err)
			}
			if r := <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeRefused ||
				r.out.ReasonCode != palyra.ReasonPlanChanged || r.out.Stdout != "" {
				t.Errorf("%+v, %v", r.out, r.err)
			}
		})
	}
	d.verify()
}

// An answer for one command line, environment or input is none for another.
func TestAnAnswerCoversNothingElse(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	agent := d.client(client.AgentDoor)
	with := func(args string) client.CallRequest {
		r := d.program("")
		r.Arguments, r.NoWait = json.RawMessage(args), true
		return r
	}
	base := with(`{"command":"/bin/cat","args":["-"],"env":{"A":"1"},"stdin":"x"}`)
	base.NoWait = false
	if out, _ := d.allowed(base); out.Stdout != "x" || out.ExitCode != 0 {
		t.Fatalf("%+v", out)
	}
	base.NoWait = true
	if r := <-propose(t.Context(), agent, base); r.err != nil || r.out.Stdout != "x" {
		t.Fatalf("the same again: %+v", r)
	}
	for name, args := range map[string]string{
		"argv":    `{"command":"/bin/cat","args":["-","-"],"env":{"A":"1"},"stdin":"x"}`,
		"env":     `{"command":"/bin/cat","args":["-"],"env":{"A":"2"},"stdin":"x"}`,
		"stdin":   `{"command":"/bin/cat","args":["-"],"env":{"A":"1"},"stdin":"y"}`,
		"program": `{"command":"/bin/tac","args":["-"],"env":{"A":"1"},"stdin":"x"}`,
		"limits":  `{"command":"/bin/cat","args":["-"],"env":{"A":"1"},"stdin":"x","limits":{"processes":100}}`,
	} {
		if r := <-propose(t.Context(), agent, with(args)); r.err != nil || r.out.ReasonCode != palyra.ReasonApprovalNotAwaited {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A program that fails brings back what it said and how it ended, also through
// palyra exec.
func TestFailingProgramsExplainThemselves(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	line := "echo out; echo err >&2; exit 7"
	if out, _ := d.allowed(d.shell(line)); out.ExitCode != 7 || out.Stdout != "out\n" || out.Stderr != "err\n" ||
		out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", out)
	}
	person := d.client(client.OperatorDoor)
	for args, want := range map[string]int{line: 7, "kill -TERM $$": 128 + 15, "exit 0": 0} {
		cmd := d.palyra("exec", "--workspace", d.work, "--", "/bin/sh", "-c", args)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := person.Decide(t.Context(), allow(d.pending(person), palyra.ScopeOnce, 0)); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%q: exit %d, want %d (%v)", args, got, want, err)
		}
		if args == line && (stdout.String() != "out\n" || !strings.Contains(stderr.String(), "err\n")) {
			t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
		}
	}
}

// survivors lists processes with the marker in their command line.
func survivors(marker string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range dirs {
		b, err := os.ReadFile(f)
		if err == nil && strings.Contains(strings.ReplaceAll(string(b), "\x00", " "), marker) {
			found = append(found, f+": "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

// gone waits until no process has the marker. One that is not ended stays for days.
func gone(t *testing.T, marker string) {
	t.Helper()
	for end := time.Now().Add(waitMost); ; {
		left := survivors(marker)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still there: %v", left)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// started waits until a program has written into a file of the workspace.
func (d *daemon) started(name string, size int64) {
	d.t.Helper()
	for end := time.Now().Add(waitMost); ; {
		if fi, err := os.Stat(filepath.Join(d.work, name)); err == nil && fi.Size() >= size {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("the program did not start:\n%s", d.log)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// tree is a program that leaves a detached child, ignores SIGTERM and stays.
func tree(marker string) string {
	return fmt.Sprintf("trap '' TERM; (setsid sleep %s >/dev/null 2>&1 &); echo x >> started; sleep %s; sleep %s", marker, marker, marker)
}

// lasting makes a number of seconds that names this test's processes.
func lasting() string { return fmt.Sprintf("9%06d.%d", os.Getpid(), time.Now().UnixNano()%1e9) }

// Cancel and revoke end the whole tree.
func TestCancelAndRevokeEndTheTree(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart("PALYRA_PROCESS_GRACE_MS=200")
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	for i, how := range []string{"cancel", "revoke"} {
		marker := lasting()
		a, call, ch, err := question(t.Context(), agent, person, d.seenShell(tree(marker)))
		if err != nil {
			t.Fatal(err)
		}
		settled, err := person.Decide(t.Context(), allow(a, palyra.ScopeSession, 0))
		if err != nil {
			t.Fatal(err)
		}
		d.started("started", int64(2*(i+1)))
		if len(survivors(marker)) == 0 {
			t.Fatal("nothing runs")
		}
		if how == "cancel" {
			err = agent.CancelCall(t.Context(), call)
		} else {
			_, err = person.RevokeLease(t.Context(), settled.Decision.Lease)
		}
		if err != nil {
			t.Fatal(err)
		}
		gone(t, marker)
		r := <-ch
		want := map[string]palyra.Reason{"cancel": palyra.ReasonCancelled, "revoke": palyra.ReasonGrantRevoked}[how]
		if r.err != nil || r.out.Outcome != palyra.OutcomeCancelled || r.out.ReasonCode != want {
			t.Errorf("%s: %+v, %v", how, r.out, r.err)
		}
		if p := predicate(t, r.out); p.KillReason != palyra.Stop(want) {
			t.Errorf("%s: attested as ended by %q", how, p.KillReason)
		}
	}
	d.verify()
}

// A daemon that dies takes its programs with it; their calls are unknown at the
// next start and are not run again.
func TestKilledDuringRuns(t *testing.T) {
	t.Parallel()
	times := 4
	if os.Getenv("PALYRA_FAULTS") == "full" {
		times = 100
	}
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	marker := lasting()
	run := d.seenShell(tree(marker))
	a, call, _, err := question(t.Context(), d.client(client.AgentDoor), d.client(client.OperatorDoor), run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.client(client.OperatorDoor).Decide(t.Context(), allow(a, palyra.ScopeSession, 0)); err != nil {
		t.Fatal(err)
	}
	for i := range times {
		d.started("started", int64(2*(i+1)))
		d.kill()
		gone(t, marker)
		d.mustStart()
		got, err := d.client(client.OperatorDoor).GetCall(t.Context(), call)
		if err != nil || got.State != palyra.Unknown || got.Outcome == nil || got.Outcome.Outcome != palyra.OutcomeUnknown {
			t.Fatalf("kill %d: %+v, %v", i, got, err)
		}
		if left := survivors(marker); len(left) > 0 {
			t.Fatalf("it was run again: %v", left)
		}
		if i == times-1 {
			break
		}
		accepted := make(chan palyra.CallID, 1)
		go func() {
			_, _ = d.client(client.AgentDoor).Call(context.WithoutCancel(t.Context()), run, func(e client.CallEvent) {
				if e.Accepted != nil {
					accepted <- e.Accepted.CallID
				}
			})
		}()
		call = <-accepted
	}
	d.verify()
	if b, err := os.ReadFile(filepath.Join(d.work, "started")); err != nil || len(b) != 2*times {
		t.Errorf("started %d times, %v", len(b)/2, err)
	}
}

// A pending program resumes after a restart and runs when it is allowed.
func TestAPendingProgramResumes(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	a, call, _, err := question(t.Context(), d.client(client.AgentDoor), d.client(client.OperatorDoor), d.program("/usr/bin/touch", "later"))
	if err != nil {
		t.Fatal(err)
	}
	d.kill()
	d.mustStart()
	if _, err := d.client(client.OperatorDoor).Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(waitMost); ; {
		got, err := d.client(client.OperatorDoor).GetCall(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if got.State == palyra.Finished {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is %s:\n%s", got.State, d.log)
		}
		<-time.After(10 * time.Millisecond)
	}
	if _, err := os.Stat(filepath.Join(d.work, "later")); err != nil {
		t.Error(err)
	}
}

// Stdin through palyra exec: small, binary, and too long to be bound.
func TestExecStdin(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	person := d.client(client.OperatorDoor)
	for name, input := range map[string][]byte{
		"empty": {}, "text": []byte("hello\n"), "binary": {0, 0xff, 0xfe}, "live": bytes.Repeat([]byte("0123456789abcde\n"), 1<<16+1),
	} {
		t.Run(name, func(t *testing.T) {
			cmd := d.palyra("exec", "--workspace", d.work, "--", "/usr/bin/sha256sum", "-")
			cmd.Stdin = bytes.NewReader(input)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			a := d.pending(person)
			if live := a.Plan.Stdin == palyra.StdinLive; live != (name == "live") {
				t.Errorf("stdin of the plan: %q", a.Plan.Stdin)
			}
			if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, stderr.Bytes())
			}
			if want := strings.TrimPrefix(string(palyra.SumBytes(input)), "sha256:"); !strings.Contains(stdout.String(), want) {
				t.Errorf("got %s, want %s", stdout.String(), want)
			}
		})
	}
}

// Whoever reads what a command prints gets all of it, far more than a call keeps, as slowly as they like.
func TestExecPrintsEverything(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	person := d.client(client.OperatorDoor)
	const size = 40 << 20
	cmd := d.palyra("exec", "--workspace", d.work, "--", "/usr/bin/head", "-c", fmt.Sprint(size), "/dev/zero")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := person.Decide(t.Context(), allow(d.pending(person), palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	var got int
	for buf := make([]byte, 1<<20); err == nil; {
		var n int
		n, err = stdout.Read(buf)
		if bytes.Trim(buf[:n], "\x00") == nil {
			got += n
		}
	}
	if err := cmd.Wait(); err != nil || got != size || strings.Contains(stderr.String(), "whole") {
		t.Errorf("%d of %d bytes came: %v\n%s", got, size, err, stderr.Bytes())
	}
}

// Signals reach the program; its exit code comes back.
func TestExecForwardsSignals(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	person := d.client(client.OperatorDoor)
	line := "trap 'echo got; exit 9' USR1; echo x > started; while :; do sleep 0.05; done"
	cmd := d.palyra("exec", "--workspace", d.work, "--live", "--", "/bin/sh", "-c", line)
	cmd.Stdin = nil
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := person.Decide(t.Context(), allow(d.pending(person), palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	d.started("started", 1)
	got := make(chan []byte, 1)
	go func() { said, _ := io.ReadAll(stdout); got <- said }()
	var said []byte
	for tick := time.NewTicker(100 * time.Millisecond); said == nil; { // until exec knows that it runs, a signal goes nowhere
		select {
		case said = <-got:
			tick.Stop()
		case <-tick.C:
			_ = cmd.Process.Signal(syscall.SIGUSR1)
		}
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 9 || string(said) != "got\n" {
		t.Errorf("exit %d, said %q", cmd.ProcessState.ExitCode(), said)
	}
}

// What is attested of an output is all of it, also where less is delivered, and as
// much as the settings say is delivered in full.
func TestDigestsAreOfTheWholeOutput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	for size, cut := range map[int]bool{1 << 20: false, 1<<20 + 1: true, 3_000_000: true} {
		out, _ := d.allowed(d.shell(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a; echo end >&2", size-4)))
		p := predicate(t, out)
		whole := strings.Repeat("a", size-4)
		if out.Truncated != cut || (out.Stdout == whole) == cut || out.Stderr != "end\n" {
			t.Errorf("%d bytes: truncated %v, %d delivered", size, out.Truncated, len(out.Stdout))
		}
		if p.StdoutDigest != palyra.SumBytes([]byte(whole)) || p.StderrDigest != palyra.SumBytes([]byte("end\n")) {
			t.Errorf("%d bytes: attested %s and %s", size, p.StdoutDigest, p.StderrDigest)
		}
		checkEvidence(t, d, d.client(client.OperatorDoor), out)
	}
}
