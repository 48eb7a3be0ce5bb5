//go:build linux

package e2e

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// refused is what a call was refused by. Those who ask why of one ask of all.
type refused struct {
	layer  palyra.Layer
	reason palyra.Reason
}

// Bounds of what is asked at the end of a test: the suite asks often.
const (
	mostCalls = 500
	whyAtEnd  = waitMost
)

// askWhy asks a daemon that is about to be stopped about every way in which calls
// were refused in the test, once each, and fails the test where why has no advice
// and there could be some. So whatever any test of the suite is refused has a why.
// A daemon that has ended has nobody to ask; one that was killed and started anew is
// asked about what it finds on record.
func (d *daemon) askWhy() {
	t, ok := d.t.(*testing.T)
	if !ok || t.Failed() || t.Skipped() || d.over() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), whyAtEnd)
	defer cancel()
	c := d.operator()
	if c == nil {
		return
	}
	defer c.Close()
	cursor := ""
	for n := 0; n < mostCalls; {
		page, err := c.Calls(ctx, client.CallFilter{Cursor: cursor, Limit: 100})
		if err != nil {
			d.unasked(err)
			return
		}
		for _, call := range page.Calls {
			if !d.hasAdvice(ctx, c, call) {
				return
			}
		}
		n += len(page.Calls)
		if cursor = page.Next; cursor == "" || len(page.Calls) == 0 {
			return
		}
	}
}

// operator is a client of the daemon's first owner; nil: the test has taken the key
// away, or has it under another name.
func (d *daemon) operator() *client.Client {
	s, err := client.LoadSigner(filepath.Join(d.home, "operator.key"), nil)
	if err != nil {
		return nil
	}
	c, err := client.Open(client.Config{Home: d.home, Door: client.OperatorDoor, Signer: s})
	if err != nil {
		return nil
	}
	return c
}

// over reports whether the daemon has ended.
func (d *daemon) over() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// hasAdvice asks why of a call, where nobody asked of one like it. False: nothing
// more can be asked.
func (d *daemon) hasAdvice(ctx context.Context, c *client.Client, call palyra.Call) bool {
	if call.Outcome == nil || call.Outcome.Layer == "" {
		return true
	}
	way := refused{call.Outcome.Layer, call.Outcome.ReasonCode}
	if d.seen[way] {
		return true
	}
	if d.seen == nil {
		d.seen = map[refused]bool{}
	}
	d.seen[way] = true
	w, err := c.Why(ctx, client.WhyRequest{ID: palyra.ID(call.ID)})
	if err != nil {
		d.unasked(err)
		return false
	}
	_, hopeless := noChange[way.reason]
	hopeless = hopeless || slices.ContainsFunc(w.Lines, func(l string) bool { // as skills are advised of
		return strings.HasPrefix(l, string(way.reason)+": ")
	})
	if w.ReasonCode != way.reason || len(w.Flips) == 0 && !hopeless {
		d.t.Errorf("%s %s of call %s (%s), explained as %s, has no advice: %s", way.layer, way.reason, call.ID, call.Proposal.Tool,
			w.ReasonCode, call.Outcome.Reason)
	}
	for _, f := range w.Flips {
		if f.Verified == saysWhy(f.Text) || f.Becomes == palyra.Deny {
			d.t.Errorf("%s %s: %+v", way.layer, way.reason, f)
		}
	}
	return true
}

// unasked is what to make of a daemon that does not answer: nothing where the test
// has broken it, that is where it does not answer anybody.
func (d *daemon) unasked(err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, opened := client.Open(client.Config{Home: d.home, Door: client.OperatorDoor})
	if opened != nil {
		return
	}
	defer c.Close()
	if c.Health(ctx) == nil && !d.over() {
		d.t.Errorf("why cannot be asked: %v", err)
	}
}
