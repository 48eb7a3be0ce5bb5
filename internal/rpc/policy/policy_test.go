package policy

import (
	"context"
	"testing"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

type looked = Policy

type asked struct {
	looked
	p palyra.Proposal
}

func (a *asked) Explain(_ context.Context, _ palyra.ID, p palyra.Proposal) (wire.Explanation, error) {
	a.p = p
	return wire.Explanation{}, nil
}

// An imagined call reaches no further than one of the caller's own.
func TestImaginedCallsAreTheCallers(t *testing.T) {
	a := &asked{}
	s := New(a, nil, nil)
	who := rpc.Caller{Principal: "user:ada", PeerUID: 1234, Within: []string{"/w"}, Starts: true}
	if _, err := s.ExplainCall(rpc.WithCaller(t.Context(), who), &v1.ExplainCallRequest{Tool: "palyra.fs.read", Workspace: "/x"}); err != nil {
		t.Fatal(err)
	}
	if a.p.PeerUID != 1234 || len(a.p.Within) != 1 || a.p.Within[0] != "/w" {
		t.Errorf("%+v", a.p)
	}
	a.p = palyra.Proposal{}
	if _, err := s.ExplainCall(rpc.WithCaller(t.Context(), who), &v1.ExplainCallRequest{CallId: "C1"}); err != nil || len(a.p.Within) != 1 {
		t.Errorf("%v %+v", err, a.p)
	}
	who.Starts, a.p = false, palyra.Proposal{}
	_, err := s.ExplainCall(rpc.WithCaller(t.Context(), who), &v1.ExplainCallRequest{Tool: "palyra.fs.read", Workspace: "/w"})
	if e := palyra.AsError(err); e.Code != palyra.Denied || e.Reason != palyra.ReasonPermission || e.Remedy == "" || a.p.Tool != "" {
		t.Errorf("%v %+v", err, a.p)
	}
	for _, req := range []*v1.ExplainCallRequest{{}, {CallId: "C1", Tool: "x"}} {
		if _, err := s.ExplainCall(rpc.WithCaller(t.Context(), rpc.Caller{Starts: true}), req); palyra.CodeOf(err) != palyra.Invalid {
			t.Error(err)
		}
	}
}
