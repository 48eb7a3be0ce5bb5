package gate

import (
	"context"
	"testing"

	"palyra"
)

// The session's labels are read each time that policy is asked, and are on record
// with what was judged; what a run did is on the line that ends it.
func TestLabelsAreReadForEveryJudgement(t *testing.T) {
	w := newWorld(t)
	w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
	var seen [][]string
	verdict := w.verdict
	w.verdict = func(r palyra.Request) palyra.Verdict {
		seen = append(seen, r.Labels)
		if r.At != noon {
			t.Errorf("judged at %v", r.At)
		}
		v := verdict(r)
		v.Standing = palyra.Standing{Roles: []palyra.Role{palyra.RoleAgent}, Owner: []palyra.Role{palyra.RoleOwner}}
		return v
	}
	n := 0
	w.labels = func() ([]string, error) { n++; return []string{"a", "b"}[:n], nil }
	w.execute = func(context.Context, palyra.Launch) palyra.Result {
		return palyra.Result{Executor: "builtin", Egress: []palyra.EgressFlow{{Verdict: "allow", Address: "192.0.2.1", In: 1}}}
	}
	if _, err := w.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || len(seen[0]) != 1 || len(seen[1]) != 2 {
		t.Errorf("judged with %v", seen)
	}
	if j := w.journal[3].(palyra.CallJudged); len(j.Labels) != 2 || len(j.Roles) != 1 || len(j.Owner) != 1 {
		t.Errorf("the line says %+v", j)
	}
	if f := w.journal[len(w.journal)-1].(palyra.CallFinished); len(f.Labels) != 1 || f.Labels[0] != palyra.LabelUntrusted {
		t.Errorf("the last line says %+v", f)
	}
}

func TestLabelsThatCannotBeReadDeny(t *testing.T) {
	for name, read := range map[string]func() ([]string, error){
		"error": func() ([]string, error) { return nil, errDisk },
		"panic": func() ([]string, error) { panic("labels") },
	} {
		w := newWorld(t)
		w.labels = read
		out, err := w.do(t.Context())
		if err != nil || out.Outcome != palyra.OutcomeRefused || out.ReasonCode != palyra.ReasonPolicyError || w.runs > 0 {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}
