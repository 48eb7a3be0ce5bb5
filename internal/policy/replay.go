package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"palyra"
)

// Record is a call as it was judged, out of the journal.
type Record struct {
	Call    palyra.ID
	Request palyra.Request // its Approval is the answer that the call got; nil: none came
	Was     palyra.Verdict // the first, before any answer
	Gap     string         // why the rest is not there; empty: it is
}

// Limits of a replay.
const (
	replayListed  = 500      // calls that one list names
	replayReasons = 64       // reasons that are told apart
	replayStep    = 1024     // records between two words of progress
	replayBatch   = 128      // records that are judged at a time
	replayBytes   = 16 << 20 // of their arguments
)

// Replay judges records again with the candidate and reports what would be
// different. Each hands over one record after the other and passes on the error
// that it is given. The report depends on the records and their order alone, and
// on the candidate as it is at the beginning: what is swapped in later does not
// count. Nothing is asked, run or recorded. With an error the report is of what
// was seen until then. Progress may be nil.
func Replay(ctx context.Context, each func(yield func(Record) error) error, candidate *Engine, progress func(done int64)) (ReplayReport, error) {
	if each == nil || candidate == nil {
		return ReplayReport{}, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy: replay: no records or no candidate")
	}
	if progress == nil {
		progress = func(int64) {}
	}
	r := newReplay(candidate, progress)
	var stopped error
	err := each(func(one Record) error {
		if stopped == nil {
			stopped = ctx.Err()
		}
		if stopped == nil {
			r.add(one)
		}
		return stopped
	})
	r.flush()
	progress(r.report.Records)
	if err = errors.Join(err, leftOut(err, stopped)); err != nil {
		return r.finish(), fmt.Errorf("policy: replay: %w", err)
	}
	return r.finish(), nil
}

// leftOut is the reason for stopping that a reader did not pass on: without it half
// a report would pass for a whole one.
func leftOut(err, stopped error) error {
	if stopped == nil || errors.Is(err, stopped) {
		return nil
	}
	return stopped
}

// replay is one replay under way.
type replay struct {
	state    *state
	progress func(int64)
	waiting  []Record
	bytes    int
	report   ReplayReport
	moves    map[move]*Transition
	gaps     map[string]*Gap
}

func newReplay(candidate *Engine, progress func(int64)) *replay {
	s := candidate.live.Load()
	r := &replay{state: s, progress: progress, moves: map[move]*Transition{}, gaps: map[string]*Gap{}}
	r.report = ReplayReport{Bundle: s.bundle.digest, Snapshot: s.digest, Transitions: make([]Transition, len(moves))}
	for i, m := range moves {
		r.report.Transitions[i] = Transition{From: m.from, To: m.to, Calls: []Change{}}
		r.moves[m] = &r.report.Transitions[i]
	}
	return r
}

// add keeps a record until there are enough to judge at once.
func (r *replay) add(one Record) {
	r.waiting = append(r.waiting, one)
	r.bytes += len(one.Request.Plan.Arguments)
	if len(r.waiting) >= replayBatch || r.bytes >= replayBytes {
		r.flush()
	}
}

// flush judges what waits, on every core, and takes it in, in order.
func (r *replay) flush() {
	out := make([]second, len(r.waiting))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(out)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(out)); i = next.Add(1) - 1 {
				out[i] = r.state.again(r.waiting[i])
			}
		})
	}
	wg.Wait()
	told := r.report.Records / replayStep
	for i, one := range r.waiting {
		r.take(one, out[i])
	}
	if r.report.Records/replayStep > told {
		r.progress(r.report.Records)
	}
	clear(r.waiting)
	r.waiting, r.bytes = r.waiting[:0], 0
}

// second is how a record is judged the second time.
type second struct {
	gap   string
	now   palyra.Verdict  // before anybody answers
	short *palyra.Verdict // with the answer that was given, where that would not do
}

// again judges a record.
func (s *state) again(one Record) second {
	if why := unreplayable(one); why != "" {
		return second{gap: why}
	}
	given := one.Request.Approval
	one.Request.Approval = nil
	c, err := s.newCall(one.Request)
	if err != nil {
		return second{gap: "it cannot be put into policy's terms: " + err.Error()}
	}
	out := second{now: c.judge()}
	if out.now.Effect == palyra.Ask && one.Was.Effect == palyra.Ask && given != nil && given.Votes > 0 {
		c.request.Approval = given
		if v := c.judge(); v.Effect != palyra.Allow {
			out.short = &v
		}
	}
	return out
}

// take counts one record.
func (r *replay) take(one Record, is second) {
	r.report.Records++
	if is.gap != "" {
		r.gap(one.Call, is.gap)
		return
	}
	if len(is.now.Errors) > 0 {
		r.report.Failing++
	}
	r.count(one, is.now)
	if t := r.moves[move{one.Was.Effect, is.now.Effect}]; t != nil {
		t.add(one, is.now)
		return
	}
	r.report.Same++
	if is.short != nil {
		r.report.Short.add(one, *is.short)
	}
}

// count keeps how often a person was, or would be, disturbed. An earlier, wider
// answer that covered a call disturbed nobody.
func (r *replay) count(one Record, now palyra.Verdict) {
	leased := one.Request.Approval != nil && !one.Request.Approval.Fresh
	was := one.Was.Effect == palyra.Ask && !leased
	will := now.Effect == palyra.Ask && (!leased || one.Was.Effect == palyra.Ask && now.Need.Fresh)
	p := &r.report.Prompts
	if was {
		p.Before++
	}
	if will {
		p.After++
	}
	switch {
	case was && now.Effect == palyra.Allow:
		p.Saved++
	case will && !was:
		p.Added++
	}
}

// unreplayable says what a record lacks.
func unreplayable(one Record) string {
	switch {
	case one.Gap != "":
		return one.Gap
	case one.Request.Plan.Tool == "":
		return "no plan is on record"
	case one.Was.Bundle == "":
		return "no verdict is on record"
	}
	return ""
}
