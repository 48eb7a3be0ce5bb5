package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// told runs events through news and returns what was said.
func told(decision palyra.Decision, events ...palyra.Event) (out []string) {
	n := &news{send: func(m *v1.CallToolResponse) error {
		switch {
		case m.GetAccepted() != nil:
			out = append(out, "accepted "+m.GetAccepted().GetCallId())
		case m.GetApprovalRequested() != nil:
			s := "asked " + m.GetApprovalRequested().GetApprovalId() + " " + m.GetApprovalRequested().GetPlanDigest()
			if m.GetApprovalRequested().GetJoined() {
				s += " joined"
			}
			out = append(out, s)
		case m.GetApprovalResolved() != nil:
			out = append(out, "resolved "+m.GetApprovalResolved().GetAnswer()+" "+m.GetApprovalResolved().GetBy())
		}
		return nil
	}}
	c := &palyra.Call{ID: "C", Digest: "d", Approval: "A", Decision: decision}
	for _, e := range events {
		n.tell(c, e)
	}
	return out
}

// That a call runs is told in its place.
func TestNewsOfRunning(t *testing.T) {
	var got []string
	n := &news{send: func(m *v1.CallToolResponse) error {
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", m.GetEvent()), "*palyrav1.CallToolResponse_"))
		return nil
	}}
	c := &palyra.Call{ID: "C"}
	n.tell(c, palyra.CallProposed{Call: "C"})
	n.run(c)
	n.print(palyra.Chunk{Stream: "stdout", Data: []byte("x")})
	if want := []string{"Accepted", "Running", "Output"}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

// A client that is gone is tried once, and nobody cares.
func TestNewsForNobody(t *testing.T) {
	tries := 0
	n := &news{send: func(*v1.CallToolResponse) error {
		tries++
		return errors.New("the client is gone")
	}}
	for range 3 {
		n.tell(&palyra.Call{}, palyra.CallProposed{Call: "C"})
		n.print(palyra.Chunk{Stream: "stdout", Data: []byte("x")})
	}
	if tries != 1 {
		t.Errorf("tried %d times", tries)
	}
}

func TestNews(t *testing.T) {
	proposed := palyra.CallProposed{Call: "C", Session: "S"}
	asked := palyra.ApprovalRequested{Approval: "A", Plan: "d"}
	joined := palyra.ApprovalJoined{Approval: "A", Call: "C"}
	again := palyra.CallJudged{Again: true}
	refused := palyra.CallRefused{Call: "C"}
	by := func(a palyra.Answer) palyra.Decision { return palyra.Decision{Approval: "A", Answer: a, By: "user:x"} }
	for name, c := range map[string]struct {
		decision palyra.Decision
		events   []palyra.Event
		want     []string
	}{
		"allowed by policy": {
			palyra.Decision{},
			[]palyra.Event{proposed, palyra.CallJudged{}, palyra.CallGranted{}, palyra.CallFinished{}},
			[]string{"accepted C"},
		},
		"allowed by a person": {
			by(palyra.AnswerAllow),
			[]palyra.Event{proposed, palyra.CallJudged{}, asked, again, palyra.CallGranted{}},
			[]string{"accepted C", "asked A d", "resolved allow user:x"},
		},
		"denied":           {by(palyra.AnswerDeny), []palyra.Event{asked, refused}, []string{"asked A d", "resolved deny user:x"}},
		"expired":          {by(palyra.AnswerTimeout), []palyra.Event{asked, refused}, []string{"asked A d", "resolved timeout user:x"}},
		"told once":        {by(palyra.AnswerAllow), []palyra.Event{asked, again, refused}, []string{"asked A d", "resolved allow user:x"}},
		"joined":           {by(palyra.AnswerAllow), []palyra.Event{joined, again}, []string{"asked A d joined", "resolved allow user:x"}},
		"by an old lease":  {by(palyra.AnswerAllow), []palyra.Event{proposed, again}, []string{"accepted C"}},
		"another question": {palyra.Decision{Approval: "B", Answer: palyra.AnswerAllow}, []palyra.Event{asked, again}, []string{"asked A d"}},
		"overtaken": {
			palyra.Decision{Approval: "B", Answer: palyra.AnswerAllow, By: "user:x", Reused: true},
			[]palyra.Event{asked, again},
			[]string{"asked A d", "resolved allow user:x"},
		},
		"refused unasked": {palyra.Decision{}, []palyra.Event{proposed, refused}, []string{"accepted C"}},
		"not waited for":  {palyra.Decision{}, []palyra.Event{asked, refused}, []string{"asked A d"}},
	} {
		got := told(c.decision, c.events...)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}
