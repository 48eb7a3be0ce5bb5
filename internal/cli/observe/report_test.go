package observe

import (
	"testing"
	"time"

	"palyra"
)

func TestReport(t *testing.T) {
	n := newCounter()
	at := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	add := func(tool palyra.ToolName, o palyra.Outcome, set func(*palyra.Call)) {
		at = at.Add(time.Second)
		c := &palyra.Call{State: palyra.Observed, Proposed: at, Outcome: &o}
		c.Proposal.Tool = tool
		if set != nil {
			set(c)
		}
		n.Add(c)
	}
	add("a", palyra.Outcome{}, nil)
	add("a", palyra.Outcome{Layer: palyra.LayerApproval}, nil)
	for range 3 {
		add("hook.read", palyra.Outcome{ReasonCode: palyra.ReasonApprovalNotAwaited, Policies: []string{"outside"}}, func(c *palyra.Call) {
			c.Verdict.Risk.Factors = []string{"outside_read: /home/u/.ssh/id", "secret_place: /home/u/.ssh/id"}
			c.Detail.Summary = "read it"
		})
	}
	add("palyra.http.fetch", palyra.Outcome{ReasonCode: palyra.ReasonPolicyDenied, Policies: []string{"p"}}, func(c *palyra.Call) {
		c.Plan.Egress = []string{"example.org:443"}
	})
	n.Add(&palyra.Call{State: palyra.Checked, Outcome: &palyra.Outcome{}}) // was held
	r := n.Report()
	if r.Calls != 6 || r.Allowed != 1 || r.Covered != 1 || r.Asked != 3 || r.Refused != 1 || len(r.Kinds) != 2 {
		t.Fatalf("%+v", r)
	}
	if k := r.Kinds[0]; k.Count != 3 || k.Would != "ask" || k.Tool != "hook.read" || k.Why != "outside" || k.Example != "read it" {
		t.Errorf("%+v", k)
	}
	if len(r.Hosts) != 1 || r.Hosts[0] != (Tally{"example.org:443", 1}) || len(r.Outside) != 1 || r.Outside[0].Count != 3 ||
		len(r.Secrets) != 1 || r.Secrets[0].Name != "/home/u/.ssh/id" {
		t.Errorf("%+v", r)
	}
}

// A flood of different names is counted, and not kept.
func TestReportIsBounded(t *testing.T) {
	n := newCounter()
	for i := range maxKept + 50 {
		c := &palyra.Call{State: palyra.Observed, Outcome: &palyra.Outcome{ReasonCode: palyra.ReasonPolicyDenied}}
		c.Proposal.Tool = palyra.ToolName("t" + time.Duration(i).String())
		n.Add(c)
	}
	if r := n.Report(); len(r.Kinds) != maxListed || r.Omitted != maxKept-maxListed+50 || r.Refused != maxKept+50 {
		t.Errorf("%d kinds, %d omitted", len(r.Kinds), r.Omitted)
	}
}
