package policy

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strings"
	"time"

	"palyra"
)

// Flip is a change after which policy gives another answer.
type Flip struct {
	Kind     string        `json:"kind"`             // policy, answer, config, workspace
	Text     string        `json:"text"`             // for people
	Change   string        `json:"change,omitempty"` // to be used as it is
	Becomes  palyra.Effect `json:"becomes"`
	Verified bool          `json:"verified"` // the call was judged again with it
}

// The kinds of flips that policy knows.
const (
	flipPolicy    = "policy"
	flipAnswer    = "answer"
	flipConfig    = "config"
	flipWorkspace = "workspace"
)

// Limits of the search: people wait for it, and a bundle may be large.
const (
	maxTrials = 96
	maxFlips  = 6
	maxApart  = 6 // exceptions that are tried by themselves
	flipTime  = 2 * time.Second
)

// trial is a call under other circumstances. Policy's answer to it is judged, never guessed.
type trial struct {
	state   *state
	request palyra.Request
}

func (t trial) verdict() palyra.Verdict {
	c, err := t.state.newCall(t.request)
	if err != nil {
		return t.state.denyUnjudged(t.request, err)
	}
	return c.judge()
}

// change is one difference that a trial can make.
type change struct {
	kind, text, use string
	apply           func(*trial)
	old, edits      rules // of an exception: the policies, and those that take their place
}

// search looks for flips of one verdict.
type search struct {
	ctx   context.Context
	from  trial
	was   palyra.Effect
	tries int
}

// flips returns the smallest changes that turn the answer, smallest first. Each was judged, and the list is empty
// where no change helped. An approval that the call got is ignored: the search is for what would have been needed.
func (c *judgement) flips(ctx context.Context, v palyra.Verdict) []Flip {
	ctx, cancel := context.WithTimeout(ctx, flipTime)
	defer cancel()
	still := *c.state
	still.project = nil // the workspace's policies are joined already
	known := c.words
	still.command = func(palyra.Plan) palyra.Command { return known } // no change that is tried here changes the words
	s := &search{ctx: ctx, from: trial{&still, c.request}}
	if c.request.Approval != nil {
		s.from.request.Approval = nil
		var err error
		if c, err = still.newCall(s.from.request); err != nil {
			return nil
		}
		v = c.judge()
	}
	s.was = v.Effect
	switch v.Effect {
	case palyra.Ask:
		return slices.Concat(s.answer(v.Need), s.tryEach(c.askChanges(v)))
	case palyra.Deny:
		return s.denial(c, v)
	}
	return nil
}

// denial looks for changes that turn a denial. All exceptions together are tried first, so that something is
// found even in a bundle so large that little can be tried; then whether fewer of them suffice.
func (s *search) denial(c *judgement, v palyra.Verdict) []Flip {
	about, apart := slices.Concat(c.nonPolicyChanges(), c.permitChanges(v, palyra.Deny)), c.exceptionChanges(v)
	found := s.tryCombinations(slices.Concat(about, mergeExceptions(apart)))
	if len(apart) < 2 || len(apart) > maxApart {
		return found
	}
	s.tries = 0
	if fewer := s.tryCombinations(slices.Concat(about, apart)); len(fewer) > 0 {
		return fewer
	}
	return found
}

// mergeExceptions makes one exception of many, with one new bundle.
func mergeExceptions(list []change) []change {
	if len(list) < 2 {
		return list
	}
	all := change{kind: list[0].kind}
	var texts, uses []string
	for _, one := range list {
		texts, uses = append(texts, one.text), append(uses, one.use)
		all.old, all.edits = append(all.old, one.old...), append(all.edits, one.edits...)
	}
	all.text, all.use = strings.Join(texts, ", and "), strings.Join(uses, "\n")
	all.apply = func(t *trial) { t.rewrite(all.old, all.edits) }
	return []change{all}
}

// try judges with changes made. ok says that the answer is a better one.
func (s *search) try(changes []change) (f Flip, ok bool) {
	if s.tries++; s.tries > maxTrials || s.ctx.Err() != nil {
		return Flip{}, false
	}
	t := s.from
	var texts, uses []string
	for _, one := range changes {
		one.apply(&t)
		f.Kind = cmp.Or(f.Kind, one.kind)
		texts = append(texts, one.text)
		uses = append(uses, one.use)
	}
	f.Text, f.Change = strings.Join(texts, ", and "), strings.Join(uses, "\n")
	f.Becomes, f.Verified = t.verdict().Effect, true
	return f, f.Becomes > s.was
}

// tryEach tries each change by itself.
func (s *search) tryEach(changes []change) []Flip {
	var out []Flip
	for _, one := range changes {
		if f, ok := s.try([]change{one}); ok {
			out = append(out, f)
		}
	}
	return rankFlips(out)
}

// tryCombinations tries each change by itself, then two together and so on, and stops where something helped.
func (s *search) tryCombinations(changes []change) []Flip {
	for size := 1; size <= len(changes); size++ {
		var out []Flip
		for set := range 1 << len(changes) {
			if bits.OnesCount(uint(set)) != size {
				continue
			}
			var some []change
			for i, one := range changes {
				if set&(1<<i) != 0 {
					some = append(some, one)
				}
			}
			if f, ok := s.try(some); ok {
				out = append(out, f)
			}
		}
		if len(out) > 0 {
			return rankFlips(out)
		}
	}
	return nil
}

// answer tries the approval that is needed as if it had been given.
func (s *search) answer(n palyra.Need) []Flip {
	t := s.from
	t.request.Approval = &palyra.ApprovalFacts{
		Votes: n.Votes, OtherPerson: n.OtherPerson, Device: n.Device, Separation: n.Separation, Scope: palyra.ScopeOnce, Fresh: true,
	}
	if t.verdict().Effect != palyra.Allow {
		return nil
	}
	return []Flip{{Kind: flipAnswer, Text: "an approval by " + Describe(n), Becomes: palyra.Allow, Verified: true}}
}

// rankFlips puts flips that allow before flips that ask, and keeps the first few. Among equals the order is
// that of the changes: those that open nothing come first.
func rankFlips(list []Flip) []Flip {
	slices.SortStableFunc(list, func(a, b Flip) int { return cmp.Compare(b.Becomes, a.Becomes) })
	return list[:min(len(list), maxFlips)]
}
