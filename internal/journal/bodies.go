package journal

import (
	"context"
	"encoding/json"
	"time"

	"palyra"
)

// Bodies calls f with the body of every entry of a kind, in order, until f fails.
func (j *Journal) Bodies(ctx context.Context, kind string, f func(body []byte) error) error {
	for from := int64(1); ; {
		page, err := j.Entries(ctx, palyra.EntryFilter{From: from, Kind: kind, Limit: 500})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, e := range page {
			raw, err := json.Marshal(e.Body)
			if err != nil {
				return err
			}
			if err := f(raw); err != nil {
				return err
			}
			from = e.Seq + 1
		}
	}
}

// Before is when the last entry was written that was there when the journal was opened.
func (j *Journal) Before() time.Time { return j.before }
