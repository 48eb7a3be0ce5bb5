//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// story is a life of a state: most things a daemon makes durable, in order. It
// stops at the first error, which a dead daemon gives it.
func story(ctx context.Context, d *daemon) error {
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if _, err := person.AddWorkspace(ctx, d.work, "w"); err != nil {
		return err
	}
	if _, err := agent.Call(ctx, echo("hello"), nil); err != nil {
		return err
	}
	var lease palyra.LeaseID
	for _, step := range []struct {
		file   string
		answer client.DecideRequest
	}{
		{"once", client.DecideRequest{Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce}},
		{"session", client.DecideRequest{Answer: palyra.AnswerAllow, Scope: palyra.ScopeSession}},
		{"denied", client.DecideRequest{Answer: palyra.AnswerDeny}},
	} {
		settled, err := asked(ctx, agent, person, write(d.work, step.file, step.file), step.answer)
		if err != nil {
			return err
		}
		if step.answer.Scope == palyra.ScopeSession {
			lease = settled.Decision.Lease
		}
	}
	if _, err := person.RevokeLease(ctx, lease); err != nil {
		return err
	}
	if err := cancelled(ctx, agent, person, write(d.work, "cancelled", "x")); err != nil {
		return err
	}
	if err := twoRuns(ctx, d, agent, person); err != nil {
		return err
	}
	return household(ctx, person)
}

// ranScript runs a program once, after a question.
const ranScript = `turns: [{say: one, calls: [{tool: palyra.process.run, with: {command: /bin/sh, args: [-c, "echo ran >> ran; echo out"]}}]}, {say: two}]`

// twoRuns is a run that comes to its end and one that is cancelled.
func twoRuns(ctx context.Context, d *daemon, agent, person *client.Client) error {
	for _, end := range []string{"done", "cancelled"} {
		r, err := agent.StartRun(ctx, client.RunRequest{
			Provider: "scripted", Input: ranScript, Workspace: d.work, Surface: palyra.SurfaceCLI,
			Session: "runs-" + end,
		})
		if err != nil {
			return err
		}
		asked := errors.New("asked")
		var id palyra.ApprovalID
		err = agent.AttachRun(ctx, r.ID, 0, func(e palyra.TapeEntry) error {
			if e.ApprovalRequested == nil {
				return nil
			}
			id = e.ApprovalRequested.Approval
			return asked
		}, func(int64, error) { cancelOf(ctx)() })
		if !errors.Is(err, asked) {
			return fmt.Errorf("no question: %w", errors.Join(err, ctx.Err()))
		}
		if end == "cancelled" {
			return agent.CancelRun(ctx, r.ID)
		}
		a, err := person.Approval(ctx, id)
		if err != nil {
			return err
		}
		if _, err := person.Decide(ctx, allow(a, palyra.ScopeOnce, 0)); err != nil {
			return err
		}
		if err := agent.AttachRun(ctx, r.ID, 0, func(palyra.TapeEntry) error { return nil }, func(int64, error) { cancelOf(ctx)() }); err != nil {
			return err
		}
	}
	return nil
}

type cancelKey struct{}

// cancelOf ends the story when the daemon it is told to is gone: following a run
// would wait for the next one.
func cancelOf(ctx context.Context) context.CancelFunc {
	f, _ := ctx.Value(cancelKey{}).(context.CancelFunc)
	if f == nil {
		return func() {}
	}
	return f
}

// household is what operators do besides deciding.
func household(ctx context.Context, person *client.Client) error {
	a, _, err := person.AddAgent(ctx, "worker", "")
	if err != nil {
		return err
	}
	if err := person.RemoveAgent(ctx, a.Principal); err != nil {
		return err
	}
	for _, use := range []palyra.KeyUse{palyra.KeyJournal, palyra.KeyAttestation} {
		if _, err := person.RotateKey(ctx, use); err != nil {
			return err
		}
	}
	page, err := person.Sessions(ctx, client.SessionFilter{})
	if err != nil {
		return err
	}
	for _, s := range page.Sessions {
		if err := person.CloseSession(ctx, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// question proposes a call and returns its open approval and its answer to come.
func question(ctx context.Context, agent, person *client.Client, r client.CallRequest) (palyra.Approval, palyra.CallID, <-chan answer,
	error,
) {
	news := make(chan client.CallEvent, 8)
	ch := make(chan answer, 1)
	go func() {
		out, err := agent.Call(ctx, r, func(e client.CallEvent) { news <- e })
		ch <- answer{out, err}
		close(news)
	}()
	var call palyra.CallID
	for e := range news {
		if e.Accepted != nil {
			call = e.Accepted.CallID
		}
		if e.ApprovalRequested != nil {
			go func() { // whatever else is told of the call is read, so that it goes on
				for range news {
				}
			}()
			a, err := person.Approval(ctx, e.ApprovalRequested.ApprovalID)
			return a, call, ch, err
		}
	}
	end := <-ch
	if end.err == nil {
		end.err = fmt.Errorf("no question: %+v", end.out)
	}
	return palyra.Approval{}, call, nil, end.err
}

func asked(ctx context.Context, agent, person *client.Client, r client.CallRequest, with client.DecideRequest) (palyra.Approval, error) {
	a, _, ch, err := question(ctx, agent, person, r)
	if err != nil {
		return a, err
	}
	with.ID, with.Digest = a.ID, a.PlanDigest
	settled, err := person.Decide(ctx, with)
	if err != nil {
		return a, err
	}
	return settled, (<-ch).err
}

func cancelled(ctx context.Context, agent, person *client.Client, r client.CallRequest) error {
	_, call, ch, err := question(ctx, agent, person, r)
	if err != nil {
		return err
	}
	if err := agent.CancelCall(ctx, call); err != nil {
		return err
	}
	return (<-ch).err
}

// check is what must hold after every crash: the journal is whole; what is on
// disk was granted; nothing hangs between granted and its end; and a question
// that was open can still be answered, and then its call runs.
func check(t testing.TB, d *daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMost)
	defer cancel()
	person := d.client(client.OperatorDoor)
	d.verify()
	granted := d.granted()
	page, err := person.Calls(ctx, client.CallFilter{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range page.Calls {
		for _, file := range c.Plan.Writes {
			if _, err := os.Stat(filepath.Join(d.work, file)); err == nil && !granted[c.ID] && unique(page.Calls, file) {
				t.Fatalf("%s ran without a granted line (call %s)", file, c.ID)
			}
		}
		if !c.State.Ended() { // still a question, or resumed and on its way: both come to an end
			finishOpen(ctx, t, d, person, c)
		}
	}
	finishRuns(ctx, t, d, person)
	if left, _ := filepath.Glob(filepath.Join(d.work, ".palyra-*.tmp")); len(left) > 0 {
		t.Errorf("temporary files stay: %q", left)
	}
	d.verify()
}

// A write that was killed leaves no temporary file once the daemon is back, and no
// file of anybody else's is taken for one.
func TestAWriteThatWasKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]string{"file.replaced/lost": "old", "file.replaced/kept": "new"} {
		t.Run(strings.ReplaceAll(point, "/", "_"), func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t)
			for name, text := range map[string]string{"f": "old", ".palyra-mine.tmp": "mine", ".palyra-01J9Z8Q2V5T6Y7W8X9A0B1C2D3-x.tmp": "mine"} {
				d.write(filepath.Join(d.work, name), text, 0o644)
			}
			d.mustStart("PALYRA_FAULT=" + point)
			_, _ = asked(t.Context(), d.client(client.AgentDoor), d.client(client.OperatorDoor), write(d.work, "f", "new"),
				client.DecideRequest{Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce})
			<-d.done
			if left, _ := filepath.Glob(filepath.Join(d.work, ".palyra-*.tmp")); len(left) != 3 {
				t.Fatalf("it was not killed in the middle: %q", left)
			}
			d.mustStart()
			left, _ := filepath.Glob(filepath.Join(d.work, ".palyra-*.tmp"))
			if b, err := os.ReadFile(filepath.Join(d.work, "f")); err != nil || string(b) != want || len(left) != 2 {
				t.Errorf("%q, %v; there are %q", b, err, left)
			}
			d.verify()
		})
	}
}

// finishRuns sees every run to its end, answering what it asks, and holds what
// ran against what was granted: a program is never run twice.
func finishRuns(ctx context.Context, t testing.TB, d *daemon, person *client.Client) {
	t.Helper()
	page, err := person.Runs(ctx, client.RunFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Runs {
		var last palyra.TapeEntry
		err := person.AttachRun(ctx, r.ID, 0, func(e palyra.TapeEntry) error {
			if e.Seq != last.Seq+1 {
				t.Errorf("run %s: entry %d follows %d", r.ID, e.Seq, last.Seq)
			}
			last = e
			if q := e.ApprovalRequested; q != nil {
				if a, err := person.Approval(ctx, q.Approval); err == nil && a.Pending() {
					_, _ = person.Decide(ctx, allow(a, palyra.ScopeOnce, 0))
				}
			}
			return nil
		})
		if err != nil || last.RunFinished == nil {
			t.Fatalf("run %s does not end: %v\n%s", r.ID, err, d.log)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(d.work, "ran")); strings.Count(string(b), "ran") > len(page.Runs) {
		t.Errorf("%d runs and the program ran %d times", len(page.Runs), strings.Count(string(b), "ran"))
	}
}

func unique(calls []palyra.Call, file string) bool {
	n := 0
	for _, c := range calls {
		if slices.Contains(c.Plan.Writes, file) {
			n++
		}
	}
	return n == 1
}

// finishOpen answers what is still open and sees the call to its end.
func finishOpen(ctx context.Context, t testing.TB, d *daemon, person *client.Client, c palyra.Call) {
	t.Helper()
	a, err := person.Approval(ctx, c.Approval)
	if err != nil {
		t.Fatal(err)
	}
	if a.Pending() {
		if _, err := person.Decide(ctx, allow(a, palyra.ScopeOnce, 0)); err != nil {
			t.Fatalf("a question that survived cannot be answered: %v", err)
		}
	}
	end := errors.New("seen")
	var kind string
	err = person.TailJournal(ctx, client.TailRequest{From: 1, Call: c.ID, Follow: true}, func(e palyra.Entry) error {
		switch e.Kind {
		case "call.finished", "call.refused", "call.cancelled", "call.unknown":
			kind = e.Kind
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		t.Fatalf("call %s does not go on: %v\n%s", c.ID, err, d.log)
	}
	if a.Pending() && kind != "call.finished" {
		t.Fatalf("call %s ended as %s after an allow", c.ID, kind)
	}
}

// points runs the story once and returns every fault point it passes.
func points(t *testing.T) []string {
	d := newDaemon(t)
	log := filepath.Join(d.work, "..", "points")
	d.mustStart("PALYRA_FAULT_LOG=" + log)
	if err := story(t.Context(), d); err != nil {
		t.Fatalf("the story fails without a fault: %v\n%s", err, d.log)
	}
	d.stop()
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(raw))
	slices.Sort(all)
	return slices.Compact(all)
}

func TestKillAtEveryDurableStep(t *testing.T) {
	t.Parallel()
	all := points(t)
	if len(all) < 30 {
		t.Fatalf("only %d points: %v", len(all), all)
	}
	for _, point := range sample(all) {
		t.Run(strings.ReplaceAll(point, "/", "_"), func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t)
			if d.start("PALYRA_FAULT=" + point) {
				ctx, cancel := context.WithTimeout(t.Context(), waitMost)
				err := story(context.WithValue(ctx, cancelKey{}, cancel), d)
				cancel()
				if err == nil {
					d.stop() // the point lies on the way down
				}
			}
			<-d.done
			d.mustStart()
			check(t, d)
			d.stop()
		})
	}
	t.Logf("%d points, each lost and kept, %d of them tried", len(all)/2, len(sample(all)))
}

// sample is every step once, by turns lost and kept; both with 'make faults'.
func sample(all []string) []string {
	if os.Getenv("PALYRA_FAULTS") == "full" {
		return all
	}
	var some []string
	seen := map[string]bool{}
	for _, point := range all {
		step, _, _ := strings.Cut(point, "/")
		if seen[step] {
			continue
		}
		way := [...]string{"/kept", "/lost"}[len(seen)%2]
		seen[step] = true
		i := slices.IndexFunc(all, func(p string) bool { return strings.HasPrefix(p, step+way) })
		some = append(some, all[max(i, slices.Index(all, point))])
	}
	return some
}

// kills is how many random kills a run makes: a sample here, all of them with
// 'make faults'.
func kills() int {
	if os.Getenv("PALYRA_FAULTS") == "full" {
		return 200
	}
	return 6
}

func TestRandomKillsUnderLoad(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	var file atomic.Int64
	for range kills() {
		d.mustStart(unlimited...)
		load(t, d, &file, time.Duration(rng.IntN(150)+5)*time.Millisecond)
		d.mustStart(unlimited...)
		check(t, d)
		d.kill()
	}
}

// load works the daemon from several sides for a while, then kills it.
func load(t *testing.T, d *daemon, file *atomic.Int64, after time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), waitMost)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 6 {
		agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
		wg.Go(func() {
			for {
				var err error
				switch i % 3 {
				case 0:
					_, err = agent.Call(ctx, echo("load"), nil)
				case 1:
					name := fmt.Sprintf("f%d", file.Add(1))
					_, err = asked(ctx, agent, person, write(d.work, name, name), client.DecideRequest{
						Answer: palyra.AnswerAllow,
						Scope:  palyra.ScopeOnce,
					})
				case 2:
					name := fmt.Sprintf("f%d", file.Add(1))
					err = cancelled(ctx, agent, person, write(d.work, name, name))
				}
				if err != nil {
					return
				}
			}
		})
	}
	<-time.After(after)
	d.kill()
	wg.Wait()
}

// A call is repeated with its key after a crash, while it runs and when it has
// ended: it is the same call, whatever characters its arguments have.
func TestRepeatAfterACrash(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	args := "{ \"command\" : \"/bin/sh\",\t\"args\": [\"-c\", \"echo x >> ran; until [ -e go ]; do sleep 0.05; done # a < b & c > " +
		"d\"], \"live\": true }"
	r := client.CallRequest{Tool: "palyra.process.run", Arguments: []byte(args), Workspace: d.work, Surface: palyra.SurfaceCLI, Key: "e1"}
	lost := propose(t.Context(), d.client(client.AgentDoor), r)
	a := d.pending(d.client(client.OperatorDoor))
	d.kill()
	<-lost
	d.mustStart()
	person := d.client(client.OperatorDoor)
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	d.started("ran", 2)
	again := propose(t.Context(), d.client(client.AgentDoor), r)
	select {
	case x := <-again:
		t.Fatalf("it did not wait for the first: %+v", x)
	case <-time.After(500 * time.Millisecond):
	}
	save(t, filepath.Join(d.work, "go"), nil)
	for i, x := range []answer{<-again, <-propose(t.Context(), d.client(client.AgentDoor), r)} {
		if x.err != nil || x.out.Outcome != palyra.OutcomeFinished || x.out.CallID != a.Call {
			t.Fatalf("repeat %d: %+v", i, x)
		}
		if p := predicate(t, x.out); p.InputDigest != palyra.SumBytes([]byte(args)) {
			t.Errorf("attested input %s", p.InputDigest)
		}
	}
	if b, err := os.ReadFile(filepath.Join(d.work, "ran")); err != nil || string(b) != "x\n" {
		t.Errorf("it ran otherwise than once: %q, %v", b, err)
	}
	d.verify()
}
