package replay

import (
	"context"
	"maps"
	"math/bits"
	"slices"

	"palyra"
	"palyra/internal/policy"
)

// trialEffect is what candidates do to one record.
type trialEffect struct {
	opens   bool     // it is not allowed now, and would be
	savable bool     // the question may be saved
	failed  bool     // a candidate could not be evaluated
	any     []string // policies that take part in opening it
	all     []string // those that open it alone
}

// trialJudge judges records with policy as it is and with candidates added.
type trialJudge struct {
	base, with *policy.Memo
}

func (y *trialJudge) record(one Record) (t trialEffect) {
	if unreplayable(one) != "" {
		return t
	}
	now, err1 := y.base.Case(one.Key, one.Request).Judge(nil)
	then, err2 := y.with.Case(one.Key, one.Request).Judge(nil)
	if err1 != nil || err2 != nil {
		return t
	}
	t.failed = len(then.Errors) > len(now.Errors)
	if now.Effect == palyra.Allow || then.Effect != palyra.Allow {
		return t
	}
	t.opens, t.savable = true, savable(one, now)
	for i, p := range then.Pairs {
		if i < len(now.Pairs) && now.Pairs[i].Effect == palyra.Allow {
			continue
		}
		t.any = append(t.any, p.Policies...)
		if t.all == nil {
			t.all = p.Policies
		}
		t.all = slices.DeleteFunc(slices.Clone(t.all), func(id string) bool { return !slices.Contains(p.Policies, id) })
	}
	return t
}

// pick chooses rules one after the other: the one that saves most of the remaining questions, and the
// narrowest of those that save the same. A rule that the bundle's own tests contradict is left out.
func (s *suggest) pick(ctx context.Context) error {
	left := slices.DeleteFunc(slices.Clone(s.trials), func(r *trialRule) bool { return r.bad })
	known := s.failures(ctx, nil)
	var done marks
	for len(s.picked) < s.most && len(left) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		best := -1
		for i, r := range left {
			r.gain = r.saves.countNotIn(done)
			if r.gain > 0 && (best < 0 || r.gain > left[best].gain || r.gain == left[best].gain && r.narrower(left[best])) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		one := left[best]
		left = slices.Delete(left, best, best+1)
		if s.contradicted(ctx, one, known) {
			continue
		}
		one.forget(done)
		s.picked = append(s.picked, one)
		done.add(one.saves)
	}
	return nil
}

// narrower orders rules that save the same.
func (r *trialRule) narrower(other *trialRule) bool {
	return r.level < other.level || r.level == other.level && r.id < other.id
}

// contradicted reports whether a test of the bundle that was good fails with one rule more.
func (s *suggest) contradicted(ctx context.Context, one *trialRule, known map[string]bool) bool {
	if known == nil {
		return false // there are no tests
	}
	for name := range s.failures(ctx, append(s.picked[:len(s.picked):len(s.picked)], one)) {
		if !known[name] {
			return true
		}
	}
	return false
}

// failures are the tests of the bundle that fail with some rules more; nil where there are no tests.
func (s *suggest) failures(ctx context.Context, list []*trialRule) map[string]bool {
	c := s.config
	if len(list) > 0 {
		var err error
		if c.Bundle, err = s.withRules(list); err != nil {
			return map[string]bool{err.Error(): true}
		}
	}
	return s.tests(ctx, c)
}

// forget removes the calls that other rules save already.
func (r *trialRule) forget(done marks) {
	maps.DeleteFunc(r.calls, func(n int, _ palyra.CallID) bool { return done.has(n) })
}

// named are the first of the calls.
func (r *trialRule) named() []palyra.CallID {
	out := []palyra.CallID{}
	for _, n := range slices.Sorted(maps.Keys(r.calls)) {
		if len(out) < suggestNamed {
			out = append(out, r.calls[n])
		}
	}
	return out
}

// marks is a set of small numbers.
type marks []uint64

func (m *marks) set(n int) {
	for len(*m) <= n/64 {
		*m = append(*m, 0)
	}
	(*m)[n/64] |= 1 << (n % 64)
}

func (m marks) has(n int) bool { return n/64 < len(m) && m[n/64]&(1<<(n%64)) != 0 }

// countNotIn counts the numbers in m that are not in other.
func (m marks) countNotIn(other marks) int64 {
	total := 0
	for i, w := range m {
		if i < len(other) {
			w &^= other[i]
		}
		total += bits.OnesCount64(w)
	}
	return int64(total)
}

// add puts everything of other into m.
func (m *marks) add(other marks) {
	for len(*m) < len(other) {
		*m = append(*m, 0)
	}
	for i, w := range other {
		(*m)[i] |= w
	}
}
