package approval

import (
	"context"
	"strings"

	"palyra"
	"palyra/internal/store"
)

// maxEnded is how many questions are looked up at a time.
const maxEnded = 256

var endedMarks = strings.TrimSuffix(strings.Repeat("?,", maxEnded), ",")

// Ended is how a question ended, in short.
type Ended struct {
	Call   palyra.CallID // that asked it; others joined
	Answer palyra.Answer // empty: nobody has answered
	Method palyra.Method
}

// Ended returns how questions ended, at most 256 of them. One that is not there is not in the answer.
func (d *Desk) Ended(ctx context.Context, questions []palyra.ApprovalID) (map[palyra.ApprovalID]Ended, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	if len(questions) > maxEnded {
		return nil, palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "approval: %d questions at once", len(questions))
	}
	args := make([]any, maxEnded)
	for i := range args { // one text, whatever the number
		args[i] = ""
		if i < len(questions) {
			args[i] = string(questions[i])
		}
	}
	out := make(map[palyra.ApprovalID]Ended, len(questions))
	err := d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT id, call_id, decision, decided_method FROM approvals WHERE id IN (`+endedMarks+`)`, args,
			func(scan func(...any) error) error {
				var id palyra.ApprovalID
				var e Ended
				err := scan(&id, &e.Call, &e.Answer, &e.Method)
				out[id] = e
				return err
			})
	})
	return out, wrap("ended", err)
}
