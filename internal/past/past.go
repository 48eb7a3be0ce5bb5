// Package past judges calls on record again: it makes their requests as they were judged then, from their
// rows and the journal's lines, and puts them to another bundle or to the one in force. It changes nothing
// and records nothing.
//
// A part that is not on record as it was judged is reported missing, and not guessed.
package past

import (
	"context"
	"encoding/json"
	"time"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/journal"
	"palyra/internal/policy"
	"palyra/internal/policy/replay"
	"palyra/internal/policy/tables"
	"palyra/internal/rpc/wire"
	"palyra/internal/run"
)

// Config wires a Past.
type Config struct {
	Ledger   *run.Ledger
	Journal  *journal.Journal
	Desk     *approval.Desk
	Bundles  Bundles
	Judging  func(*policy.Bundle) policy.Config
	Projects Projects
	Now      func() time.Time
}

// Bundles are the policies in force, and those that may come to be.
type Bundles interface {
	Engine() *policy.Engine
	Examine(ctx context.Context, files map[string]string) (*policy.Bundle, wire.PolicyCheck, error)
}

// Projects are the policies of workspaces and of directories in them.
type Projects interface {
	Of(workspace string, places ...string) (*policy.Bundle, error)
	At(dir string) (*policy.Bundle, error)
	MayHave(dir string) bool // false: At finds none
}

// Past is the calls on record.
type Past struct{ Config }

// Replay implements the door's History.
func (p Past) Replay(ctx context.Context, q wire.ReplayQuery, progress func(int64)) (wire.ReplayReport, error) {
	b, problems, err := p.candidate(ctx, q.Files)
	if err != nil {
		return wire.ReplayReport{}, err
	}
	if b == nil {
		return wire.ReplayReport{Transitions: []wire.ReplayTransition{}, Gaps: []wire.ReplayGap{}, Problems: problems}, nil
	}
	e, err := policy.New(p.judging(b))
	if err != nil {
		return wire.ReplayReport{}, err
	}
	r, err := replay.Run(ctx, p.records(ctx, q), e, progress)
	if err != nil {
		return wire.ReplayReport{}, err
	}
	return reportWords(r)
}

// Suggest implements the door's History.
func (p Past) Suggest(ctx context.Context, q wire.ReplayQuery, rules int, progress func(int64)) (wire.PolicySuggestion, error) {
	if q.Until.IsZero() { // the calls are gone through more than once, and must be the same each time
		q.Until = p.Now()
	}
	s, err := replay.Suggest(ctx, p.records(ctx, q), p.judging(p.Bundles.Engine().Bundle()), tables.Failures, rules, progress)
	if err != nil {
		return wire.PolicySuggestion{}, err
	}
	out := wire.PolicySuggestion{Files: s.Files, File: s.File, Rules: make([]wire.SuggestedRule, len(s.Rules))}
	for i, r := range s.Rules {
		out.Rules[i] = wire.SuggestedRule{ID: r.ID, Text: r.Text, Reason: r.Reason, Saves: r.Saves, Calls: r.Calls}
	}
	out.Report, err = reportWords(s.Report)
	return out, err
}

// judging is the configuration that records are judged with: the present one, without the policies of
// workspaces, which are not part of the bundle and were others then.
func (p Past) judging(b *policy.Bundle) policy.Config {
	c := p.Judging(b)
	c.Project = nil
	return c
}

// candidate is the bundle of files, checked like one that is put into force, or the one in force where there
// are no files. It is nil with problems where it is not good.
func (p Past) candidate(ctx context.Context, files map[string]string) (*policy.Bundle, []wire.PolicyProblem, error) {
	if len(files) == 0 {
		return p.Bundles.Engine().Bundle(), nil, nil
	}
	b, check, err := p.Bundles.Examine(ctx, files)
	if b != nil || err != nil {
		return b, nil, err
	}
	problems := check.Problems
	for _, t := range check.Tests {
		if !t.OK {
			problems = append(problems, wire.PolicyProblem{File: t.File, Line: 1, Column: 1, Text: "the test " + t.Name + " fails: " + t.Text})
		}
	}
	return nil, problems, nil
}

// reportWords is a report in the protocol's type: the JSON of both is the same.
func reportWords(r replay.Report) (out wire.ReplayReport, err error) {
	raw, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return wire.ReplayReport{}, palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the report cannot be told").WithCause(err)
	}
	return out, nil
}
