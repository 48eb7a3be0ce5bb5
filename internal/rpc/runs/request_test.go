package runs

import (
	"reflect"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/rpc"

	v1 "palyra/api/gen/palyra/v1"
)

var agent = rpc.Caller{Principal: "agent:ci", Owner: "user:alice", PeerUID: 7, Role: palyra.RoleAgent}

// Who starts a run comes from the credential, whatever the request says.
func TestStart(t *testing.T) {
	got, err := start(agent, &v1.StartRunRequest{Provider: "scripted", Input: "x"})
	want := StartRequest{Principal: "agent:ci", Owner: "user:alice", PeerUID: 7, Surface: palyra.SurfaceAPI, Provider: "scripted", Input: "x"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	if _, err := start(agent, &v1.StartRunRequest{
		Input: long(maxInput), Title: long(maxName), Key: long(maxName), Workspace: long(maxPath), Door: "mcp",
	}); err != nil {
		t.Errorf("the most that is allowed: %v", err)
	}
	for name, c := range map[string]struct {
		req  *v1.StartRunRequest
		want palyra.Code
	}{
		"input":     {&v1.StartRunRequest{Input: long(maxInput + 1)}, palyra.Exhausted},
		"title":     {&v1.StartRunRequest{Title: long(maxName + 1)}, palyra.Exhausted},
		"key":       {&v1.StartRunRequest{Key: long(maxName + 1)}, palyra.Exhausted},
		"session":   {&v1.StartRunRequest{Session: long(maxName + 1)}, palyra.Exhausted},
		"provider":  {&v1.StartRunRequest{Provider: long(maxName + 1)}, palyra.Exhausted},
		"workspace": {&v1.StartRunRequest{Workspace: long(maxPath + 1)}, palyra.Exhausted},
		"cron":      {&v1.StartRunRequest{Door: "cron"}, palyra.Invalid},
		"no door":   {&v1.StartRunRequest{Door: "API"}, palyra.Invalid},
		"calls":     {&v1.StartRunRequest{Budget: &v1.Budget{MaxCalls: -1}}, palyra.Invalid},
		"wall":      {&v1.StartRunRequest{Budget: &v1.Budget{WallMs: -1}}, palyra.Invalid},
		"output":    {&v1.StartRunRequest{Budget: &v1.Budget{OutputBytes: -1}}, palyra.Invalid},
		"parallel":  {&v1.StartRunRequest{Budget: &v1.Budget{Parallel: -1}}, palyra.Invalid},
	} {
		if _, err := start(agent, c.req); palyra.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFilter(t *testing.T) {
	person := rpc.Caller{Principal: "user:alice", Role: palyra.RoleOwner}
	f, err := filter(person, &v1.ListRunsRequest{Principal: "agent:x", SessionId: "S", State: "done", Cursor: "R9", Limit: 9999})
	if want := (palyra.RunFilter{
		Principal: "agent:x", Session: "S", State: palyra.RunDone, Cursor: "R9", Limit: largestPage,
		Reach: person.Reach(),
	}); err != nil || !reflect.DeepEqual(f, want) || !f.Reach.Person {
		t.Errorf("%+v %v", f, err)
	}
	if f, err := filter(agent, &v1.ListRunsRequest{Principal: "agent:x"}); err != nil || f.Reach.Principal != "agent:ci" || f.Reach.Person ||
		f.Limit != defaultPage {
		t.Errorf("%+v %v", f, err)
	}
	if f, err := filter(rpc.Caller{Principal: "agent:odd"}, &v1.ListRunsRequest{}); err != nil || f.Reach.Principal != "agent:odd" ||
		f.Reach.Person {
		t.Errorf("an agent without a role: %+v %v", f, err)
	}
	for _, req := range []*v1.ListRunsRequest{{Limit: -1}, {State: "DONE"}} {
		if _, err := filter(person, req); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%v: %v", req, err)
		}
	}
}

// A refusal is told; what is the daemon's own ends the stream.
func TestRefused(t *testing.T) {
	for _, code := range []palyra.Code{
		palyra.Invalid, palyra.Denied, palyra.Expired, palyra.NotFound, palyra.Conflict, palyra.Exhausted,
	} {
		m, err := refused(palyra.Errorf(code, palyra.ReasonPermission, "why").WithRemedy("so"))
		d := m.GetRefused().GetDetail()
		if err != nil || d.GetCode() != string(code) || d.GetReasonCode() != string(palyra.ReasonPermission) ||
			d.GetRemedy() != "so" || m.GetRefused().GetMessage() != "why" {
			t.Errorf("%s: %v %v", code, m, err)
		}
	}
	for _, code := range []palyra.Code{palyra.Internal, palyra.Unavailable} {
		if m, err := refused(palyra.Errorf(code, palyra.ReasonInternal, "why")); err == nil {
			t.Errorf("%s: %v", code, m)
		}
	}
}

// Even outside the chain a stream lets nothing through by itself.
func TestTalkNeedsTheChain(t *testing.T) {
	k := &talk{service: New(nil, nil)} // neither must be reached
	for _, m := range []*v1.RunStreamRequest{
		{Message: &v1.RunStreamRequest_Start{Start: &v1.StartRunRequest{}}},
		{Message: &v1.RunStreamRequest_ToolApprovalResponse{ToolApprovalResponse: &v1.DecideApprovalRequest{Answer: "allow"}}},
		{Message: &v1.RunStreamRequest_Cancel{Cancel: &v1.CancelRunRequest{RunId: "R"}}},
	} {
		if _, _, err := k.answer(t.Context(), m); palyra.CodeOf(err) != palyra.Internal {
			t.Errorf("%v: %v", m, err)
		}
	}
}
