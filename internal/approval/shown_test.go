package approval

import (
	"strings"
	"testing"

	"palyra"
	"palyra/internal/mask"
	"palyra/internal/masked"
	"palyra/internal/store"
)

// A question about a call with values in it shows their names, is about the plan all the same, and cannot be answered
// when the daemon that asked it has ended, or when what is shown was changed.
func TestMaskedQuestions(t *testing.T) {
	m := new(mask.Masker)
	m.Set(func(yield func(string, []byte) bool) { yield("token", []byte("the-value-of-a-token")) })
	w := newWorld(t, func(c *Config) { c.Mask = masked.Words{Masker: m} })
	c := call(t, "the-value-of-a-token.txt")
	a := w.ask(c)
	shown := w.get(a.ID)
	if d, err := shown.Plan.Digest(); err != nil || !shown.Plan.Masked || shown.PlanDigest != c.Digest || d == c.Digest ||
		strings.Contains(string(shown.Plan.Arguments), "the-value") || strings.Contains(shown.Prompt.Summary+shown.Prompt.Diff, "the-value") {
		t.Fatalf("%+v, %v", shown, err)
	}
	_, err := w.desk.Decide(t.Context(), vote(a, palyra.AnswerDeny, changed(func(v *palyra.Vote) { v.Reason = "the-value-of-a-token" })))
	wantErr(t, err, palyra.Invalid, palyra.ReasonMalformedInput)
	if d := w.decide(shown, palyra.AnswerAllow); d.Decision.Answer != palyra.AnswerAllow || d.Decision.Digest != c.Digest {
		t.Errorf("%+v", d.Decision)
	}
	for what, spoil := range map[string]func(a palyra.Approval){
		"another daemon": func(palyra.Approval) { w.restart() },
		"another plan": func(a palyra.Approval) {
			err := w.db.Write(t.Context(), "test", func(tx *store.Tx) error {
				_, err := tx.Exec(`UPDATE approval_documents SET plan = REPLACE(plan, '"tier"', '"cwd":"/x","tier"') WHERE approval_id = ?`, a.ID)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		a := w.ask(call(t, "the-value-of-a-token."+strings.ReplaceAll(what, " ", "-")))
		spoil(a)
		_, err := w.desk.Decide(t.Context(), vote(a, palyra.AnswerAllow))
		wantErr(t, err, palyra.Conflict, palyra.ReasonStaleDigest)
	}
}
