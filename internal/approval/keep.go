package approval

import (
	"errors"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/store"
)

// maxKept bounds the bytes kept of a question that nobody allowed: nothing of it ran, and somebody who asks
// and withdraws again and again could fill the disk. The whole stays where somebody said yes: it is the
// evidence of what was allowed.
const maxKept = 64 << 10

const aDay = int64(24 * time.Hour)

// spend takes n bytes out of the daily allowance for questions of a payer.
func (d *Desk) spend(tx *store.Tx, who string, n int64, m moment) error {
	day := m.wall / aDay
	var spent int64
	err := tx.Get(`SELECT bytes FROM approval_bytes WHERE principal = ? AND day = ?`, []any{who, day}, &spent)
	if err != nil && !errors.Is(err, store.ErrNoRows) {
		return err
	}
	if spent+n > d.cfg.DailyBytes {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuestionBytes,
			"the questions of %s keep %d bytes of this day, and this one would add %d: more than approvals.daily_bytes (%d)", who, spent, n,
			d.cfg.DailyBytes).
			WithRemedy("write less at once, have an operator raise approvals.daily_bytes, or ask again after %s", palyra.Time(timeOf((day+1)*aDay)))
	}
	if _, err := tx.Exec(`DELETE FROM approval_bytes WHERE principal = ? AND day < ?`, who, day-1); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO approval_bytes (principal, day, bytes) VALUES (?, ?, ?)
		ON CONFLICT (principal, day) DO UPDATE SET bytes = bytes + excluded.bytes`, who, day, n)
	return err
}

// shrink removes the large parts of a settled question, and gives their bytes back. It returns the digest of
// the rest, for the line that settles the question.
func (d *Desk) shrink(tx *store.Tx, r record) (palyra.Digest, error) {
	full, n, err := withDocuments(tx, r.ID)
	if err != nil || n <= maxKept {
		return palyra.KeptWhole, err
	}
	a := full.Approval
	a.LeftOut = &palyra.LeftOut{
		Arguments: palyra.SumBytes(a.Plan.Arguments), ArgumentsBytes: int64(len(a.Plan.Arguments)), DiffBytes: int64(len(a.Prompt.Diff)),
	}
	a.Prompt.Diff = ""
	a.Plan.Arguments = []byte("null")
	plan, err := encode(a.Plan)
	if err != nil {
		return "", err
	}
	if len(plan) > maxKept/2 { // what is large is no argument
		if plan, err = encode(outline(a.Plan)); err != nil {
			return "", err
		}
	}
	if a.Prompt.Notes = clipped(a.Prompt.Notes); len(a.Prompt.Notes) > 0 {
		a.Prompt.Notes = a.Prompt.Notes[:min(len(a.Prompt.Notes), maxNotes)]
	}
	prompt, err1 := encode(a.Prompt)
	left, err2 := encode(a.LeftOut)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if _, err := tx.Exec(`UPDATE approval_documents SET plan = ?, prompt = ?, left_out = ? WHERE approval_id = ?`, plan, prompt, left,
		r.ID); err != nil {
		return "", err
	}
	_, err = tx.Exec(`UPDATE approval_bytes SET bytes = MAX(0, bytes - ?) WHERE principal = ? AND day = ?`,
		n-len(plan)-len(prompt), r.Payer, nanos(r.RequestedAt)/aDay)
	return palyra.SumBytes([]byte(plan + "\x00" + prompt + "\x00" + left)), err
}

const (
	maxNotes = 32
	maxNote  = 512
)

func clipped(notes []string) []string {
	out := make([]string, 0, len(notes))
	for _, n := range notes {
		out = append(out, palyra.Clip(n, maxNote))
	}
	return out
}

// outline is a plan without its lists.
func outline(p palyra.Plan) palyra.Plan {
	return palyra.Plan{
		Tool: p.Tool, Arguments: p.Arguments, Capabilities: p.Capabilities, Source: p.Source, ReadOnly: p.ReadOnly, Workspace: p.Workspace,
		Executable: p.Executable, Tier: p.Tier, Profile: p.Profile, Limits: p.Limits, Enforcement: palyra.Enforcement{Mode: p.Enforcement.Mode},
		Cwd: palyra.Clip(p.Cwd, maxNote), Unshown: p.Unshown, Lasting: p.Lasting,
	}
}

// checkPlanDigest checks that a plan is the one that the digest is of. A plan that was shrunk is not, which
// is allowed only where nobody said yes.
func checkPlanDigest(a palyra.Approval) error {
	if a.LeftOut != nil {
		if a.Pending() || a.Decision.Answer == palyra.AnswerAllow {
			return errors.New("the plan of a question that is open, or was allowed, is not whole")
		}
		return nil
	}
	if !isPlan(a.Plan, a.PlanDigest) {
		return fmt.Errorf("the plan does not have its digest")
	}
	return nil
}
