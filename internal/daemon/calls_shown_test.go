package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/tools"

	v1 "palyra/api/gen/palyra/v1"
)

// An agent that proposes to write over a file learns nothing of what stands in it:
// the diff is for those who answer.
func TestAgentsSeeNoDiffs(t *testing.T) {
	d := testDaemon(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := tools.New(catalogPart{d.path.catalog}, callsPart{d.path.calls, d.journal, d.observe}, callsPart{d.path.calls, d.journal, d.observe})
	for _, c := range []struct{ tool, args string }{
		{"palyra.fs.write", `{"path":"key","content":"x"}`},
		{"palyra.fs.edit", `{"path":"key","old_string":"2","new_string":"3"}`},
		{"palyra.fs.edit", `{"path":"key","old_string":"4","new_string":"3"}`},
	} {
		p := proposal(c.tool, c.args)
		p.Workspace = dir
		out, err := d.path.calls.Call(t.Context(), p, palyra.Watch{})
		if err != nil || out.ReasonCode != palyra.ReasonApprovalNotAwaited {
			t.Fatalf("%s: %+v, %v", c.args, out, err)
		}
		for who, sees := range map[palyra.Principal]bool{"agent:local": false, "user:me": !strings.Contains(c.args, `"4"`)} {
			ctx := rpc.WithCaller(t.Context(), rpc.Caller{Principal: who})
			one, err := s.GetCall(ctx, &v1.GetCallRequest{CallId: string(out.CallID)})
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.ListCalls(ctx, &v1.ListCallsRequest{Limit: 1})
			if err != nil || len(all.GetCalls()) != 1 {
				t.Fatalf("%v %v", all, err)
			}
			for _, call := range []*v1.Call{one.GetCall(), all.GetCalls()[0]} {
				if got := strings.Contains(call.String(), "hunter"); got != sees || call.GetDetail().GetSummary() == "" ||
					who == "agent:local" && len(call.GetDetail().GetNotes()) > 0 {
					t.Errorf("%s, %s: %v", who, c.args, call.GetDetail())
				}
			}
		}
	}
}
