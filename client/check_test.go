package client_test

import (
	"context"
	"slices"
	"testing"

	"palyra"
	"palyra/client"
)

func TestCheck(t *testing.T) {
	b := newBench(t)
	b.parts.OnCheck = func(_ context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
		w.Event(&palyra.Call{}, palyra.CallProposed{Call: "C7", Session: "S"})
		if p.TimeoutMS != 0 || p.Surface != palyra.SurfaceHook || !p.NoWait || string(p.Arguments) != `{"path":"a"}` {
			t.Errorf("proposed %+v", p)
		}
		return palyra.Outcome{Outcome: palyra.OutcomeAllowed, CallID: "C7", Tool: p.Tool}, nil
	}
	var heard palyra.CallID
	out, err := b.agent().Check(t.Context(), client.CallRequest{
		Tool: "palyra.fs.read", Arguments: []byte(`{"path":"a"}`), Surface: palyra.SurfaceHook, NoWait: true, Timeout: 5,
	}, func(e client.CallEvent) {
		if e.Accepted != nil {
			heard = e.Accepted.CallID
		}
	})
	if err != nil || out.Outcome != palyra.OutcomeAllowed || out.CallID != "C7" || heard != "C7" {
		t.Errorf("%+v %v, heard %q", out, err, heard)
	}
	if !slices.Contains(b.parts.Seen(), "check palyra.fs.read") {
		t.Errorf("reached %v", b.parts.Seen())
	}
	if _, err := b.operator().Check(t.Context(), client.CallRequest{Tool: "palyra.echo"}, nil); err == nil {
		t.Error("the operator's door takes checks")
	}
}
