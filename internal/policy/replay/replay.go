// Package replay judges calls on record again: which answers of a candidate differ (Run), and which narrow
// permits would have saved questions that people always answered with yes (Suggest). It asks nobody, runs
// nothing, records nothing and puts nothing into force.
package replay

import (
	"context"
	"fmt"

	"palyra"
	"palyra/internal/policy"
)

// Record is a call as it was judged, out of the journal; or, with Effects in its request, what the run of a call had
// changed, as that was judged.
type Record struct {
	Call    palyra.CallID
	Request palyra.Request // its Approval is the answer that the call got; nil: none came
	Was     palyra.Verdict // the first, before any answer
	Answer  palyra.Answer  // of people, also where the call itself did not wait for it
	Key     string         // records of one key have one request but for the call's id; empty: nobody knows
	Joined  bool           // the question of another call stood open, so nobody was disturbed again
	Gap     string         // why the record is incomplete; empty: it is complete

	Observed bool // nobody was asked, and the agent made the call by itself
}

// Limits of a replay.
const (
	replayListed  = 500  // calls that one list names
	replayReasons = 64   // reasons that are told apart
	replayStep    = 1024 // records between two words of progress
)

// Run judges records again with the candidate and reports the differences. The report depends on the records and their order alone, and on
// the candidate as it is at the beginning: later swaps do not count. Run asks nobody, runs nothing and records
// nothing. With an error the report is of the records seen until then. Progress may be nil.
func Run(ctx context.Context, each Records, candidate *policy.Engine, progress func(done int64)) (Report, error) {
	if each == nil || candidate == nil {
		return Report{}, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy: replay: no records or no candidate")
	}
	if progress == nil {
		progress = func(int64) {}
	}
	memo, end := candidate.Memo(ctx)
	defer end()
	r := newReplay(memo, progress)
	err := ordered(ctx, each, r.judgeAgain, r.take)
	progress(r.report.Records)
	if err != nil {
		return r.finish(), fmt.Errorf("policy: replay: %w", err)
	}
	return r.finish(), nil
}

// replay is one replay under way.
type replay struct {
	memo     *policy.Memo
	progress func(int64)
	report   Report
	moves    map[move]*Transition
	gaps     map[string]*Gap
}

func newReplay(m *policy.Memo, progress func(int64)) *replay {
	r := &replay{memo: m, progress: progress, moves: map[move]*Transition{}, gaps: map[string]*Gap{}}
	r.report = Report{Bundle: m.Bundle().Digest(), Snapshot: m.Snapshot(), Transitions: make([]Transition, len(moves))}
	for i, m := range moves {
		r.report.Transitions[i] = Transition{From: m.from, To: m.to, Calls: []Change{}}
		r.moves[m] = &r.report.Transitions[i]
	}
	return r
}

// rejudged is how a record is judged the second time.
type rejudged struct {
	gap   string
	now   palyra.Verdict  // before anybody answers
	short *palyra.Verdict // verdict with the answer that was given, where that answer is too weak
}

// judgeAgain judges a record with the candidate.
func (r *replay) judgeAgain(one Record) rejudged {
	if why := unreplayable(one); why != "" {
		return rejudged{gap: why}
	}
	c := r.memo.Case(one.Key, one.Request)
	defer c.Done()
	now, err := c.Judge(nil)
	if err != nil {
		return rejudged{gap: "it cannot be put into policy's terms: " + err.Error()}
	}
	out := rejudged{now: now}
	if given := one.Request.Approval; out.now.Effect == palyra.Ask && one.Was.Effect == palyra.Ask && given != nil && given.Votes > 0 {
		if v, err := c.Judge(given); err == nil && v.Effect != palyra.Allow {
			out.short = &v
		}
	}
	return out
}

// take counts one record.
func (r *replay) take(one Record, is rejudged) {
	if r.report.Records++; r.report.Records%replayStep == 0 {
		r.progress(r.report.Records)
	}
	if is.gap != "" {
		r.gap(one.Call, is.gap)
		return
	}
	if len(is.now.Errors) > 0 {
		r.report.Failing++
	}
	if is.now.Looks { // what it left is dropped unasked, whatever policies say
		r.report.Same++
		return
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

// count keeps how often a person was, or would be, disturbed. An earlier, wider answer that covered a call
// disturbed nobody, nor did a call that joined an open question.
func (r *replay) count(one Record, now palyra.Verdict) {
	was := one.disturbed()
	will := now.Effect == palyra.Ask && !one.Joined && (!one.leased() || one.Was.Effect == palyra.Ask && now.Need.Fresh)
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

// leased reports whether an earlier answer covered the call, which needs somebody's yes.
func (one Record) leased() bool {
	a := one.Request.Approval
	return a != nil && a.Votes > 0 && !a.Fresh
}

// disturbed reports whether a person was asked because of the call, or would have been.
func (one Record) disturbed() bool {
	return one.Was.Effect == palyra.Ask && !one.leased() && !one.Joined
}

// unreplayable says which part of a record is missing.
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
