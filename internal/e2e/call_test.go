//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// pending waits for an open question about a tool and returns it, whole.
func (d *daemon) pending(c *client.Client) palyra.Approval {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), waitMost)
	defer cancel()
	var found palyra.Approval
	stop := os.ErrExist
	err := c.WatchApprovals(ctx, func(a palyra.Approval) error {
		if !a.Pending() {
			return nil
		}
		found = a
		return stop
	})
	if found.ID == "" {
		d.t.Fatalf("no question: %v\n%s", err, d.log)
	}
	return found
}

type answer struct {
	out palyra.Outcome
	err error
}

// propose calls on its own goroutine.
func propose(ctx context.Context, c *client.Client, r client.CallRequest) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		out, err := c.Call(ctx, r, nil)
		ch <- answer{out, err}
	}()
	return ch
}

func allow(a palyra.Approval, scope palyra.Scope, ttl time.Duration) client.DecideRequest {
	return client.DecideRequest{ID: a.ID, Answer: palyra.AnswerAllow, Scope: scope, TTL: ttl, Digest: a.PlanDigest}
}

func TestWriteWaitsForAPersonAndIsAttested(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	ch := propose(t.Context(), agent, write(d.work, "a.txt", "x"))
	a := d.pending(person)
	if !strings.Contains(a.Prompt.Diff, "+x") {
		t.Errorf("the approval does not show the diff: %q", a.Prompt.Diff)
	}
	if _, err := os.Stat(filepath.Join(d.work, "a.txt")); err == nil {
		t.Fatal("it ran before it was allowed")
	}
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	r := <-ch
	if r.err != nil || r.out.Outcome != palyra.OutcomeFinished || r.out.Attestation == nil {
		t.Fatalf("%+v", r)
	}
	if b, err := os.ReadFile(filepath.Join(d.work, "a.txt")); err != nil || string(b) != "x" {
		t.Fatalf("%q, %v", b, err)
	}
	d.verify()
	checkEvidence(t, d, person, r.out)
}

// checkEvidence has both verifiers check an outcome, as built binaries.
func checkEvidence(t *testing.T, d *daemon, person *client.Client, out palyra.Outcome) {
	t.Helper()
	trust, err := person.ExportKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := out.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	file, keys := filepath.Join(d.work, "..", "outcome.json"), filepath.Join(d.work, "..", "trust.json")
	save(t, keys, trust)
	verdicts := func() (string, bool) {
		a, aerr := exec.Command(bin(t, "palyra"), "attest", "verify", file, "--key", keys).CombinedOutput()
		b, berr := exec.Command(bin(t, "palyra-verify"), "--key", keys, file).CombinedOutput()
		if (aerr == nil) != (berr == nil) {
			t.Fatalf("the verifiers disagree:\n%s\n%s", a, b)
		}
		return string(a) + string(b), aerr == nil
	}
	save(t, file, raw)
	if said, ok := verdicts(); !ok {
		t.Fatalf("refused:\n%s", said)
	}
	var buf strings.Builder
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(json.RawMessage(raw)); err != nil {
		t.Fatal(err)
	}
	save(t, file, []byte(buf.String()))
	if said, ok := verdicts(); !ok {
		t.Fatalf("white space between tokens was refused:\n%s", said)
	}
	for _, i := range []int{12, len(raw) / 3, len(raw) / 2, len(raw) - 40} { // every byte is tried in internal/attest and cmd/palyra-verify
		bad := append([]byte(nil), raw...)
		bad[i] ^= 1
		save(t, file, bad)
		if said, ok := verdicts(); ok {
			t.Fatalf("a changed byte at %d was accepted:\n%s", i, said)
		}
	}
}

func save(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSessionGrant(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	same := write(d.work, "s.txt", "same")
	ch := propose(t.Context(), agent, same)
	a := d.pending(person)
	settled, err := person.Decide(t.Context(), allow(a, palyra.ScopeSession, 0))
	if err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", r)
	}
	// The first call made the file: the plan of the next binds its content, so
	// that one is a new plan. From then on the plan is the same.
	ch = propose(t.Context(), agent, same)
	a = d.pending(person)
	if settled, err = person.Decide(t.Context(), allow(a, palyra.ScopeSession, 0)); err != nil {
		t.Fatal(err)
	}
	<-ch
	if r := <-propose(t.Context(), agent, same); r.err != nil || r.out.Outcome != palyra.OutcomeFinished || r.out.ApprovalID != "" {
		t.Fatalf("the identical call: %+v", r)
	}
	other := write(d.work, "s.txt", "other")
	other.NoWait = true
	if r := <-propose(t.Context(), agent, other); r.out.ReasonCode != palyra.ReasonApprovalNotAwaited {
		t.Fatalf("a different call: %+v", r)
	}
	if _, err := person.RevokeLease(t.Context(), settled.Decision.Lease); err != nil {
		t.Fatal(err)
	}
	same.NoWait = true
	if r := <-propose(t.Context(), agent, same); r.out.ReasonCode != palyra.ReasonApprovalNotAwaited {
		t.Fatalf("after the revoke: %+v", r)
	}
	d.verify()
}

func TestTimeboxedGrantEndsByItself(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	save(t, filepath.Join(d.work, "t.txt"), []byte("t"))
	same := write(d.work, "t.txt", "t")
	ch := propose(t.Context(), agent, same)
	settled, err := person.Decide(t.Context(), allow(d.pending(person), palyra.ScopeTimeboxed, 2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	<-ch
	lease, err := person.Lease(t.Context(), settled.Decision.Lease)
	if err != nil {
		t.Fatal(err)
	}
	if r := <-propose(t.Context(), agent, same); r.out.Outcome != palyra.OutcomeFinished && time.Now().Before(lease.ExpiresAt) {
		t.Fatalf("within the time: %+v", r)
	}
	<-time.After(time.Until(lease.ExpiresAt) + 50*time.Millisecond)
	same.NoWait = true
	if r := <-propose(t.Context(), agent, same); r.out.ReasonCode != palyra.ReasonApprovalNotAwaited {
		t.Fatalf("after the time: %+v", r)
	}
}

func TestConcurrentDecidersOneWinner(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(unlimited...)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	ch := propose(t.Context(), agent, write(d.work, "r.txt", "x"))
	a := d.pending(person)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 100 { // 1,000 are tried in internal/approval
		wg.Go(func() {
			r := allow(a, palyra.ScopeOnce, 0)
			if i%2 == 1 {
				r = client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}
			}
			_, err := person.Decide(t.Context(), r)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if palyra.CodeOf(err) != palyra.Conflict {
				t.Errorf("a loser got %v", err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d winners", won)
	}
	<-ch
	d.verify()
}

func TestDecisionsThatMustNotCount(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	named, token, err := person.AddAgent(t.Context(), "worker", "")
	if err != nil {
		t.Fatal(err)
	}
	ch := propose(t.Context(), agent, write(d.work, "n.txt", "x"))
	a := d.pending(person)
	signer, err := client.LoadSigner(filepath.Join(d.home, "operator.key"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]client.Config{
		"agent credential on the agent door":    {Home: d.home, Door: client.AgentDoor, AgentToken: token, Signer: signer},
		"agent credential on the operator door": {Home: d.home, Door: client.OperatorDoor, AgentToken: token, Signer: signer},
		"no credential on the agent door":       {Home: d.home, Door: client.AgentDoor, Signer: signer},
	} {
		c, err := client.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0))
		if palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s (%s): %v", name, named.Principal, err)
		}
		_ = c.Close()
	}
	stale := allow(a, palyra.ScopeOnce, 0)
	stale.Digest = palyra.SumBytes([]byte("another plan"))
	if _, err := person.Decide(t.Context(), stale); palyra.AsError(err).Reason != palyra.ReasonStaleDigest {
		t.Errorf("stale digest: %v", err)
	}
	if got, err := person.Approval(t.Context(), a.ID); err != nil || !got.Pending() {
		t.Fatalf("it was settled: %+v, %v", got.Decision, err)
	}
	alerts := map[string]bool{}
	for _, e := range d.entries() {
		if e.Kind == "alert.raised" {
			alerts[e.Body["reason_code"].(string)] = true
		}
	}
	for _, want := range []palyra.Reason{palyra.ReasonAgentMayNotDecide, palyra.ReasonStaleDigest} {
		if !alerts[string(want)] {
			t.Errorf("no alert for %s: %v", want, alerts)
		}
	}
	if _, err := person.Decide(t.Context(), client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}); err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.out.ReasonCode != palyra.ReasonApprovalDenied {
		t.Fatalf("%+v", r)
	}
	d.verify()
}

func TestSecondDaemonIsRefused(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	cmd := exec.Command(bin(t, "palyrad"), "--home", d.home)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another daemon") || !strings.Contains(string(out), "remedy") {
		t.Errorf("%v: %s", err, out)
	}
	d.verify()
}

// With an agent's credential ends what hangs on it: its open question cannot be
// answered any more, and nothing of it runs.
func TestRemovedAgentLeavesNothingBehind(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	person := d.client(client.OperatorDoor)
	worker, token, err := person.AddAgent(t.Context(), "worker", "")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := client.Open(client.Config{Home: d.home, Door: client.AgentDoor, AgentToken: token})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Close() }()
	ch := propose(t.Context(), agent, write(d.work, "gone.txt", "x"))
	a := d.pending(person)
	if err := person.RemoveAgent(t.Context(), worker.Principal); err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.err == nil && r.out.Outcome == palyra.OutcomeFinished {
		t.Errorf("it ran: %+v", r)
	}
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("its question can still be answered: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.work, "gone.txt")); err == nil {
		t.Error("its call ran")
	}
	if _, err := agent.Call(t.Context(), echo("still here"), nil); palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("its token works: %v", err)
	}
	d.verify()
}
