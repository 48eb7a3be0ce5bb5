package run

import (
	"palyra"
	"palyra/internal/run/tapeline"
	"palyra/internal/store"
)

// record puts an event of a run's call onto the run's tape and counts it in the
// run's budgets.
func (l *Ledger) record(tx *store.Tx, c *palyra.Call, e palyra.Event, pos palyra.Position) error {
	run := c.Proposal.Run
	if tapeline.Ends(e) && l.printed != nil { // what it printed comes before its end
		if err := l.printed(tx, c.ID); err != nil {
			return err
		}
	}
	for _, entry := range tapeline.Of(c, e) {
		entry.Position = pos.Seq
		if err := l.tape.add(tx, run, entry); err != nil {
			return err
		}
	}
	return l.count(tx, c, e)
}

// count keeps what a run has used: it is right whatever a crash cuts off.
func (l *Ledger) count(tx *store.Tx, c *palyra.Call, e palyra.Event) (err error) {
	run := string(c.Proposal.Run)
	if _, ok := e.(palyra.CallProposed); ok {
		_, err = tx.Exec(`UPDATE runs SET calls=calls+1 WHERE id=? AND ended_at=0`, run)
	}
	if n := tapeline.Delivered(c.Outcome); err == nil && tapeline.Ends(e) && n > 0 {
		_, err = tx.Exec(`UPDATE runs SET output=output+? WHERE id=? AND ended_at=0`, n, run)
	}
	return err
}
