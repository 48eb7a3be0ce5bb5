package policy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"palyra"
)

// Why says what Judge says, word for word.
func TestWhyIsTheVerdict(t *testing.T) {
	b, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		e, err := New(Config{Bundle: b, Snapshot: palyra.Snapshot{
			AllowedTools: []string{"palyra.*"}, Principals: []string{"*"},
			Channels: []string{"cli"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := anyRequest(t)
		if rapid.Bool().Draw(t, "approved") {
			f := anyFacts(t, "facts")
			r.Approval = &f
		}
		v, x := e.Judge(t.Context(), r), e.Why(t.Context(), r)
		got := palyra.Verdict{
			Effect: x.Verdict, Need: x.Need, Risk: x.Risk, Policies: x.Policies, Errors: x.Errors, Pairs: x.Pairs,
			Bundle: x.Bundle, Snapshot: x.Snapshot, Reason: x.Reason, Remedy: x.Remedy,
		}
		if d := cmp.Diff(v, x.Answer(), cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(v, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		layer := map[palyra.Effect]palyra.Layer{palyra.Allow: "", palyra.Ask: palyra.LayerApproval, palyra.Deny: palyra.LayerPolicy}[v.Effect]
		if x.Layer != layer || v.Reason == "" || (v.Effect != palyra.Allow) != (v.Remedy != "") {
			t.Fatalf("layer %q, reason %q, remedy %q", x.Layer, v.Reason, v.Remedy)
		}
		if len(v.Policies) == 0 && (r.Approval == nil || r.Approval.Votes > 0) {
			t.Fatal("decided by nothing")
		}
	})
}

func TestWhyShowsTheEvaluations(t *testing.T) {
	e := engine(t, permitWhen(t, "context.approval.other_person"))
	x := e.Why(t.Context(), write("a.txt"))
	var got []palyra.Need
	for _, r := range x.Rungs {
		got = append(got, r.Approval)
		if r.Action != "tool.execute" || r.Resource != `Tool::"palyra.fs.write"` || r.Allowed != r.Approval.OtherPerson {
			t.Errorf("%+v", r)
		}
	}
	want := []palyra.Need{{}, {Votes: 1, Fresh: true}, {Votes: 1, Fresh: true, OtherPerson: true}} // only what can make a difference
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A forbid that no approval can lift ends the search at once.
func TestWhyStopsEarly(t *testing.T) {
	e := engine(t, load(t, `@id("n") forbid (principal, action, resource); @id("p") permit (principal, action in Action::"call", resource) when { context.approval.granted };`))
	if x := e.Why(t.Context(), write("a.txt")); len(x.Rungs) != 1 {
		t.Errorf("%d evaluations", len(x.Rungs))
	}
}

func TestWhyJSON(t *testing.T) {
	r := write("a.txt")
	r.Approval = meets(palyra.Need{Votes: 2, Device: true})
	raw, err := json.Marshal(engine(t, bundleOf(t, "ask")).Why(t.Context(), r))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdict  string
		Layer    *string
		Policies []struct{ ID, File string }
		Context  struct {
			Writes   []string
			Approval struct {
				Votes  int
				Device bool
			}
		}
		Entities []struct{ UID struct{ Type, ID string } }
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Verdict != "allow" || got.Layer != nil || got.Policies[0].ID != "sensitive-needs-approval" ||
		got.Policies[0].File != "approval.cedar" ||
		got.Context.Writes[0] != "a.txt" || got.Context.Approval.Votes != 2 || !got.Context.Approval.Device ||
		len(got.Entities) != 4 || got.Entities[0].UID.ID != "local" {
		t.Errorf("%s", raw)
	}
}
