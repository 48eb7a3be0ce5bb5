//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// Going on editing is one answer for the questions too that are open already: all calls
// that wait go on under the lease, and nobody is asked any more.
func TestOneAnswerForEditsUnderWay(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	d.inWorkspace()
	t.Run("calls", func(t *testing.T) { d.editsUnderWay(t) })
	t.Run("hooks", func(t *testing.T) { d.hooksUnderWay(t) })
	d.stop()
	d.mustStart("PALYRA_FAULT=call.granted/lost")
	t.Run("killed", func(t *testing.T) { d.killedUnderWay(t) })
	d.verify()
}

// threeEdits proposes three writes in one session, each of which asks.
func (d *daemon) threeEdits(t *testing.T, session string) (questions []palyra.Approval, calls []palyra.CallID, ends []<-chan answer) {
	t.Helper()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	for i := range 3 {
		r := write(d.work, fmt.Sprintf("%s-%d.txt", session, i), "x\n")
		r.Session = session
		a, call, ch, err := question(t.Context(), agent, person, r)
		if err != nil {
			t.Fatal(err)
		}
		questions, calls, ends = append(questions, a), append(calls, call), append(ends, ch)
	}
	return questions, calls, ends
}

// goOn answers one question by the command.
func (d *daemon) goOn(a palyra.Approval) error {
	out, err := d.palyra("approvals", "decide", string(a.ID), "allow-edits", "--digest", string(a.PlanDigest)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func (d *daemon) noneOpen(t *testing.T) {
	t.Helper()
	page, err := d.client(client.OperatorDoor).Approvals(t.Context(), client.ApprovalFilter{Pending: true})
	if err != nil || len(page.Approvals) != 0 {
		t.Errorf("open: %+v %v", page.Approvals, err)
	}
}

func (d *daemon) editsUnderWay(t *testing.T) {
	person := d.client(client.OperatorDoor)
	questions, _, ends := d.threeEdits(t, "edits")
	if err := d.goOn(questions[1]); err != nil {
		t.Fatal(err)
	}
	var grant palyra.GrantID
	for i, ch := range ends {
		end := <-ch
		if end.err != nil || end.out.Outcome != palyra.OutcomeFinished || end.out.ApprovalID != questions[1].ID ||
			grant != "" && end.out.GrantID != grant {
			t.Errorf("call %d: %+v %v", i, end.out, end.err)
		}
		grant = end.out.GrantID
		if i == 2 {
			checkEvidence(t, d, person, end.out)
		}
	}
	d.noneOpen(t)
	a, err := person.Approval(t.Context(), questions[0].ID)
	if err != nil || !a.Decision.Overtaken() || a.Decision.Lease != palyra.LeaseID(grant) || len(a.Votes) != 0 {
		t.Errorf("the question that was overtaken: %+v %v", a.Decision, err)
	}
	if out, err := d.palyra("approvals", "show", string(a.ID)).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "covered by lease "+string(grant)) {
		t.Errorf("%v\n%s", err, out)
	}
	d.verify()
}

func (d *daemon) hooksUnderWay(t *testing.T) {
	person := d.client(client.OperatorDoor)
	said := make(chan string, 3)
	for i := range 3 {
		in := d.preToolUse("Write", map[string]any{"file_path": filepath.Join(d.work, fmt.Sprintf("hook-%d.txt", i)), "content": "x"})
		go func() {
			says, code, errs := d.hook(in, "--wait", "60s")
			said <- fmt.Sprint(says.Specific.Decision, code, errs)
		}()
	}
	open := map[palyra.ApprovalID]palyra.Approval{}
	err := person.WatchApprovals(t.Context(), func(a palyra.Approval) error {
		if open[a.ID] = a; len(open) == 3 {
			return os.ErrExist
		}
		return nil
	})
	if len(open) != 3 {
		t.Fatalf("%d questions: %v", len(open), err)
	}
	if err := d.goOn(d.pending(person)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if s := <-said; s != "allow0" {
			t.Error(s)
		}
	}
	d.noneOpen(t)
}

// killedUnderWay: the daemon dies after the answer, before any of the calls is granted.
// The next one goes on with all of them.
func (d *daemon) killedUnderWay(t *testing.T) {
	questions, calls, ends := d.threeEdits(t, "killed")
	_ = d.goOn(questions[2]) // the daemon may be gone before it can say so
	<-d.done
	for _, ch := range ends {
		<-ch
	}
	for i := range 3 {
		if _, err := os.Lstat(filepath.Join(d.work, fmt.Sprintf("killed-%d.txt", i))); err == nil {
			t.Fatal("it was not killed before the first grant")
		}
	}
	d.mustStart(unlimited...)
	agent := d.client(client.AgentDoor)
	for i, id := range calls {
		out, err := agent.WatchCall(t.Context(), id, nil)
		if err != nil || out.Outcome != palyra.OutcomeFinished {
			t.Errorf("call %d: %+v %v", i, out, err)
		}
	}
	d.noneOpen(t)
}
