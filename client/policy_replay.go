package client

import (
	"context"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// The words of a replay, which judges calls on record again.
type (
	// ReplayQuery says which calls to judge again, and with which policies.
	ReplayQuery = wire.ReplayQuery
	// ReplayReport lists the answers that a candidate would have changed.
	ReplayReport = wire.ReplayReport
	// ReplayTransition holds all the calls whose answer changes from one given answer to another.
	ReplayTransition = wire.ReplayTransition
	// ReplayChange is one call that would be answered differently, and why.
	ReplayChange = wire.ReplayChange
	// ReplayPrompts counts how often people were asked, and how often they would be.
	ReplayPrompts = wire.ReplayPrompts
	// ReplayGap is a reason why calls cannot be judged again.
	ReplayGap = wire.ReplayGap
	// PolicySuggestion is a candidate and the questions that it would have saved.
	PolicySuggestion = wire.PolicySuggestion
	// SuggestedRule is one rule of a suggestion.
	SuggestedRule = wire.SuggestedRule
)

// ReplayPolicy judges the calls on record again with a candidate, or with the bundle in force where
// the query has no files, and reports the differences. Nothing changes. A faulty candidate yields a
// report with problems and no error. Progress may be nil.
func (c *Client) ReplayPolicy(ctx context.Context, q ReplayQuery, progress func(done int64)) (ReplayReport, error) {
	stream, err := c.policy().ReplayPolicy(ctx, &v1.ReplayPolicyRequest{Files: q.Files, Since: timestamp(q.Since), Until: timestamp(q.Until)})
	var report *ReplayReport
	err = receiveAll(stream, err, func(m *v1.ReplayPolicyResponse) (err error) {
		if m.GetReport() == nil {
			reportProgress(progress, m.GetDone())
			return nil
		}
		r, err := word[ReplayReport](m.GetReport(), nil)
		report = &r
		return err
	})
	return lastMessage(report, err)
}

// SuggestPolicy makes a candidate of at most so many rules (0: the daemon's default) that would
// have saved the most questions among the calls of the query's time. It comes into force only when
// somebody applies it. Progress may be nil.
func (c *Client) SuggestPolicy(ctx context.Context, q ReplayQuery, rules int64, progress func(done int64)) (PolicySuggestion, error) {
	stream, err := c.policy().SuggestPolicy(ctx, &v1.SuggestPolicyRequest{Since: timestamp(q.Since), Until: timestamp(q.Until), Rules: rules})
	var found *PolicySuggestion
	err = receiveAll(stream, err, func(m *v1.SuggestPolicyResponse) (err error) {
		if m.GetSuggestion() == nil {
			reportProgress(progress, m.GetDone())
			return nil
		}
		s, err := word[PolicySuggestion](m.GetSuggestion(), nil)
		found = &s
		return err
	})
	return lastMessage(found, err)
}

func reportProgress(progress func(int64), done int64) {
	if progress != nil {
		progress(done)
	}
}

// lastMessage returns the last message of a stream. A stream that ends without one was cut off.
func lastMessage[T any](v *T, err error) (out T, _ error) {
	if err != nil {
		return out, err
	}
	if v == nil {
		return out, lostConnection(io.ErrUnexpectedEOF)
	}
	return *v, nil
}

// timestamp is a time for the wire; nil for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
