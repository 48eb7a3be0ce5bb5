package gate

import (
	"encoding/json"
	"slices"
	"testing"

	"palyra"
)

// Whatever would have become of it, an observed call ends at once, in one barrier, and nobody is asked.
func TestObservedCallsAskNobody(t *testing.T) {
	cases := map[string]struct {
		set    func(*world)
		effect palyra.Effect
		layer  palyra.Layer
		reason palyra.Reason
		lease  palyra.LeaseID
	}{
		"allowed": {func(w *world) { w.verdict = always(palyra.Allow) }, palyra.Allow, "", "", ""},
		"denied": {
			func(w *world) { w.verdict = always(palyra.Deny) }, palyra.Deny, palyra.LayerPolicy, palyra.ReasonPolicyDenied, "",
		},
		"asked": {
			func(w *world) { w.verdict = asking(palyra.Allow) }, palyra.Ask, palyra.LayerApproval, palyra.ReasonApprovalNotAwaited, "",
		},
		"covered": {func(w *world) {
			w.verdict = asking(palyra.Allow)
			d := answered(palyra.AnswerAllow)
			w.lease = &d
		}, palyra.Ask, palyra.LayerApproval, "", leaseID},
		"refused by the catalogue": {func(w *world) {
			w.admit = func() (palyra.Tool, error) { return palyra.Tool{}, errStop }
		}, palyra.Deny, palyra.LayerCatalog, palyra.ReasonInternal, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			out, err := w.gate().Observe(t.Context(), callID, palyra.Proposal{
				Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:alice", Surface: palyra.SurfaceHook, Session: "S1"},
				Tool:     "palyra.fs.write", Arguments: json.RawMessage(`{"path":"a.txt"}`),
			}, Watcher{Events: w.watch})
			w.checkEnd(out, err)
			if err != nil || out.Outcome != palyra.OutcomeObserved || out.Layer != c.layer || out.ReasonCode != c.reason || out.Attestation != nil {
				t.Fatalf("%+v, %v", out, err)
			}
			e, ok := w.journal[len(w.journal)-1].(palyra.CallObserved)
			if !ok || e.Effect != c.effect || e.Layer != c.layer || e.Reason != c.reason || e.Lease != c.lease {
				t.Errorf("the line reads %+v", w.journal[len(w.journal)-1])
			}
			for _, step := range w.trace {
				if step == "prepare" || step == "wait" || step == "run" || step == "attest" {
					t.Errorf("an observed call: %q", w.trace)
				}
			}
			if row := w.rows[callID]; row.State != palyra.Observed || w.runs > 0 || len(w.granted) > 0 {
				t.Errorf("the durable call is %s, %d runs", row.State, w.runs)
			}
			if n := len(slices.DeleteFunc(slices.Clone(w.trace), func(s string) bool { return len(s) < 6 || s[:6] != "record" })); n != 1 {
				t.Errorf("%d barriers: %q", n, w.trace)
			}
		})
	}
}
