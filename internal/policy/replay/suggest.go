package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/policy"
)

// Suggestion is a candidate that would have saved questions, and its effect on the calls on record. It puts
// nothing into force.
type Suggestion struct {
	Files  map[string]string // the bundle with one file more; nil where nothing is worth suggesting
	File   string            // its name
	Rules  []SuggestedRule
	Report Report // of the candidate
}

// SuggestedRule is one permit of a suggestion.
type SuggestedRule struct {
	ID     string
	Text   string
	Reason string
	Saves  int64           // questions that no rule before it saves
	Calls  []palyra.CallID // some of them
}

// Limits of a suggestion.
const (
	suggestGroups = 20_000 // kinds of calls that are told apart
	suggestTried  = 64     // rules that are tried out
	suggestNamed  = 20     // calls that one rule names
	suggestSet    = 64     // words that one condition lists
)

// Failures are the tests of a configuration's bundle that fail, by name; nil: it has no tests.
type Failures func(ctx context.Context, c policy.Config) map[string]bool

// Suggest looks for the narrowest permits, at most so many, that would have saved the most questions that
// people answered with yes. It suggests no permit that lets any other call on record run without a question:
// one that policy denies, that a person denied or did not answer, or that needs more than a plain yes. Each
// permit is tried by judging the records again, and none is suggested that the bundle's own tests contradict.
// Each is called several times and must hand over the same records every time. Progress may be nil.
func Suggest(
	ctx context.Context, each Records, c policy.Config, failures Failures, most int, progress func(done int64),
) (Suggestion, error) {
	if each == nil || c.Bundle == nil || most < 1 {
		return Suggestion{}, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy: suggest: no records, no bundle or no rules")
	}
	base, err := policy.New(c)
	if err != nil {
		return Suggestion{}, err
	}
	memo, end := base.Memo(ctx)
	defer end()
	s := &suggest{config: c, tests: failures, base: memo, most: most, progress: progress, groups: map[string]*group{}}
	each = callsOf(each)
	if err := s.gather(ctx, each); err != nil {
		return Suggestion{}, fmt.Errorf("policy: suggest: %w", err)
	}
	if err := s.try(ctx, each); err != nil {
		return Suggestion{}, fmt.Errorf("policy: suggest: %w", err)
	}
	if err := s.pick(ctx); err != nil {
		return Suggestion{}, fmt.Errorf("policy: suggest: %w", err)
	}
	return s.finish(ctx, each)
}

// callsOf leaves out the judgements of what runs had changed: an answer to those is for the changes that were seen, and
// no rule could stand for it.
func callsOf(each Records) Records {
	return func(yield func(Lot) error) error {
		return each(func(l Lot) error {
			return yield(func() []Record {
				return slices.DeleteFunc(l(), func(one Record) bool { return one.Request.Effects != nil })
			})
		})
	}
}

// suggest is one search under way.
type suggest struct {
	config   policy.Config
	tests    Failures
	base     *policy.Memo
	most     int
	progress func(int64)
	seen     int64 // records, each time that they are gone through
	groups   map[string]*group
	trials   []*trialRule
	picked   []*trialRule
	asked    int // questions that could be saved
}

// trialRule is a permit that is tried out.
type trialRule struct {
	id, text, reason string
	level            int
	bad              bool  // it would let a call run that must not
	saves            marks // questions, by their number
	calls            map[int]palyra.CallID
	gain             int64
}

func (s *suggest) step() {
	if s.seen++; s.progress != nil && s.seen%replayStep == 0 {
		s.progress(s.seen)
	}
}

// savable reports whether the question of a record may be saved: a person was asked and said yes, or nobody was asked
// because calls were observed, and the policies in force ask for no more than one yes.
func savable(one Record, now palyra.Verdict) bool {
	return one.Was.Effect == palyra.Ask && (one.Answer == palyra.AnswerAllow || one.Observed && one.Answer == palyra.AnswerPending) &&
		now.Effect == palyra.Ask && now.Need == palyra.Need{Votes: 1}
}

// gather sorts the calls whose questions could be saved into kinds.
func (s *suggest) gather(ctx context.Context, each Records) error {
	return ordered(ctx, each, s.shapes, func(one Record, list []shape) {
		s.step()
		for i, sh := range list {
			g := s.groups[sh.key]
			if g == nil {
				if len(s.groups) >= suggestGroups {
					continue
				}
				g = newGroup(sh)
				s.groups[sh.key] = g
			}
			below := ""
			if i > 0 {
				below = list[i-1].key
			}
			g.add(sh, below, one.disturbed())
		}
	})
}

// shapes returns the descriptions of a call, the narrowest first; nil where its question may not be saved.
func (s *suggest) shapes(one Record) []shape {
	if unreplayable(one) != "" {
		return nil
	}
	v, err := s.base.Case(one.Key, one.Request).Judge(nil)
	if err != nil || !savable(one, v) {
		return nil
	}
	list := shapes(one.Request, s.base.Analyse(one.Request.Plan))
	if one.Observed {
		return seenOnly(one.Request, list)
	}
	return list
}

// candidates are the kinds that are worth a trial, those with the most questions first. A wider kind that
// covers no more calls than the narrower one is left out.
func (s *suggest) candidates() []*group {
	var out []*group
	for _, g := range s.groups {
		if g.count > 0 && g.fits() && (g.level == 0 || g.many) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.level, b.level), cmp.Compare(a.key, b.key))
	})
	return out[:min(len(out), suggestTried)]
}

// try judges every record with all the candidates beside the bundle. A permit
// takes part where it is among those that allow a call.
func (s *suggest) try(ctx context.Context, each Records) error {
	byID := map[string]*trialRule{}
	for _, g := range s.candidates() {
		r := g.rule()
		if s.base.Bundle().Knows(r.id) || byID[r.id] != nil {
			continue
		}
		s.trials, byID[r.id] = append(s.trials, r), r
	}
	if len(s.trials) == 0 {
		return nil
	}
	b, err := s.withRules(s.trials)
	if err != nil {
		return err
	}
	c := s.config
	c.Bundle = b
	e, err := policy.New(c)
	if err != nil {
		return err
	}
	with, end := e.Memo(ctx)
	defer end()
	var failed error
	y := &trialJudge{base: s.base, with: with}
	err = ordered(ctx, each, y.record, func(one Record, t trialEffect) {
		s.step()
		if t.failed && failed == nil {
			failed = palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "a suggested rule cannot be evaluated for call %s", one.Call)
		}
		s.weigh(one, t, byID)
	})
	if err == nil {
		err = failed
	}
	return err
}

// weigh notes what the candidates would have done to one record.
func (s *suggest) weigh(one Record, t trialEffect, byID map[string]*trialRule) {
	if !t.opens {
		return
	}
	for _, id := range t.any {
		if r := byID[id]; r != nil && !t.savable {
			r.bad = true
		}
	}
	if !t.savable || !one.disturbed() {
		return
	}
	n := s.asked
	s.asked++
	for _, id := range t.all {
		if r := byID[id]; r != nil {
			r.saves.set(n)
			if len(r.calls) < suggestNamed*suggestTried {
				r.calls[n] = one.Call
			}
		}
	}
}

// withRules is the bundle with the rules added.
func (s *suggest) withRules(list []*trialRule) (*policy.Bundle, error) {
	files, _ := s.files(list)
	b, report := policy.Check(files)
	if b == nil {
		return nil, palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the suggested rules are not good: %s", report.Problems.Error())
	}
	return b, nil
}

// files returns the bundle's files with one more, which holds the rules, and its name.
func (s *suggest) files(list []*trialRule) (files map[string]string, name string) {
	files = s.base.Bundle().Files()
	name = "suggested.cedar"
	for n := 2; files[name] != ""; n++ {
		name = fmt.Sprintf("suggested-%d.cedar", n)
	}
	var b strings.Builder
	b.WriteString("// Suggested from calls on record that people were asked about and allowed, or that were observed. Read\n" +
		"// each, keep what you mean, and put the bundle into force with 'palyra policy apply'.\n")
	for _, r := range list {
		b.WriteString("\n" + r.text + "\n")
	}
	files[name] = b.String()
	return files, name
}

// finish replays what was picked.
func (s *suggest) finish(ctx context.Context, each Records) (Suggestion, error) {
	out := Suggestion{Rules: []SuggestedRule{}}
	c := s.config
	if len(s.picked) > 0 {
		out.Files, out.File = s.files(s.picked)
		b, report := policy.Check(out.Files)
		if b == nil {
			return Suggestion{}, report.Problems
		}
		c.Bundle = b
	}
	for _, r := range s.picked {
		out.Rules = append(out.Rules, SuggestedRule{ID: r.id, Text: r.text, Reason: r.reason, Saves: r.gain, Calls: r.named()})
	}
	e, err := policy.New(c)
	if err != nil {
		return Suggestion{}, err
	}
	before := s.seen
	out.Report, err = Run(ctx, each, e, func(done int64) {
		if s.progress != nil {
			s.progress(before + done)
		}
	})
	return out, err
}
