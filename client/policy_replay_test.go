package client_test

import (
	"slices"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/rpc/rpctest"
)

// What the daemon says of the past arrives as it is, with words of progress before.
func TestReplayAndSuggest(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	var steps []int64
	q := client.ReplayQuery{Files: map[string]string{"a.cedar": "x"}, Since: time.Unix(5, 0), Until: time.Unix(9, 0)}
	report, err := c.ReplayPolicy(ctx, q, func(done int64) { steps = append(steps, done) })
	same(t, "report", err, report, rpctest.Replayed)
	if !slices.Equal(steps, []int64{1, 3}) {
		t.Errorf("%v", steps)
	}
	_, err = c.ReplayPolicy(ctx, client.ReplayQuery{}, nil)
	must(t, err)
	steps = nil
	found, err := c.SuggestPolicy(ctx, q, 7, func(done int64) { steps = append(steps, done) })
	same(t, "suggestion", err, found, rpctest.Suggested)
	_, err = c.SuggestPolicy(ctx, client.ReplayQuery{}, 0, nil)
	must(t, err)
	if seen := b.parts.Seen(); !slices.Equal(seen, []string{"replay 1 5 9", "replay 0 0 0", "suggest 7 5 9", "suggest 10 0 0"}) ||
		!slices.Equal(steps, []int64{3}) {
		t.Errorf("%v %v", seen, steps)
	}
}

// A span that is none, and more rules than anybody reads, reach no part.
func TestReplayBadInput(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	at := time.Unix(9, 0)
	far := time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, call := range map[string]func() error{
		"backwards":  func() error { _, err := c.ReplayPolicy(ctx, client.ReplayQuery{Since: at, Until: at}, nil); return err },
		"no time":    func() error { _, err := c.ReplayPolicy(ctx, client.ReplayQuery{Since: far}, nil); return err },
		"too many":   func() error { _, err := c.SuggestPolicy(ctx, client.ReplayQuery{}, 101, nil); return err },
		"less":       func() error { _, err := c.SuggestPolicy(ctx, client.ReplayQuery{}, -1, nil); return err },
		"suggestion": func() error { _, err := c.SuggestPolicy(ctx, client.ReplayQuery{Until: far}, 1, nil); return err },
	} {
		if err := call(); reason(err) != palyra.ReasonMalformedInput {
			t.Errorf("%s: %v", name, err)
		}
	}
	if seen := b.parts.Seen(); len(seen) != 0 {
		t.Errorf("%v", seen)
	}
}
