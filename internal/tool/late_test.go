package tool

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

// A tool that only looks ends with its time, also one that does not notice.
func TestLateTools(t *testing.T) {
	for name, c := range map[string]struct {
		plan  palyra.Plan
		takes time.Duration
		wait  time.Duration
		err   error
	}{
		"in time":            {palyra.Plan{ReadOnly: true}, time.Second / 2, time.Second / 2, nil},
		"a little late":      {palyra.Plan{ReadOnly: true}, time.Second + lateness/2, time.Second + lateness/2, context.DeadlineExceeded},
		"deaf":               {palyra.Plan{ReadOnly: true}, time.Hour, time.Second + lateness, context.DeadlineExceeded},
		"changes files":      {palyra.Plan{Writes: []string{"f"}}, time.Minute, time.Minute, nil},
		"says it only looks": {palyra.Plan{ReadOnly: true, Writes: []string{"f"}}, time.Minute, time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				deaf := named("x", func(context.Context, palyra.Plan) (json.RawMessage, error) {
					time.Sleep(c.takes)
					return json.RawMessage(`{}`), nil
				})
				start := time.Now()
				out, err := timely(ctx, deaf, Env{}, c.plan)
				if !errors.Is(err, c.err) || (err == nil) != (out != nil) || time.Since(start) != c.wait {
					t.Errorf("%s, %v after %s", out, err, time.Since(start))
				}
				time.Sleep(c.takes) // until the deaf one has ended, too
			})
		})
	}
}
