package policy

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// History is the calls on record, to be judged again. Nothing in it changes
// anything, and what is long tells how far it is.
type History interface {
	// Replay says what a candidate would have answered otherwise. A candidate that
	// is not good is a report with problems, and no error.
	Replay(ctx context.Context, q wire.ReplayQuery, progress func(done int64)) (wire.ReplayReport, error)
	// Suggest makes a candidate of at most so many rules that would have saved the
	// most questions of the query's time; the query's files are not looked at.
	Suggest(ctx context.Context, q wire.ReplayQuery, rules int, progress func(done int64)) (wire.PolicySuggestion, error)
}

// How many rules a suggestion holds.
const (
	someRules = 10
	maxRules  = 100
)

// ReplayPolicy implements the method.
func (s *Service) ReplayPolicy(ctx context.Context, req *v1.ReplayPolicyRequest,
	stream *connect.ServerStream[v1.ReplayPolicyResponse],
) error {
	q, err := query(req.GetSince(), req.GetUntil())
	if err != nil {
		return err
	}
	q.Files = req.GetFiles()
	r, err := s.history.Replay(ctx, q, func(done int64) { _ = stream.Send(&v1.ReplayPolicyResponse{Done: done}) })
	if err != nil {
		return err
	}
	m := &v1.ReplayReport{}
	if err := wire.FromWord(r, m); err != nil {
		return err
	}
	return stream.Send(&v1.ReplayPolicyResponse{Done: r.Records, Report: m})
}

// SuggestPolicy implements the method.
func (s *Service) SuggestPolicy(ctx context.Context, req *v1.SuggestPolicyRequest,
	stream *connect.ServerStream[v1.SuggestPolicyResponse],
) error {
	q, err := query(req.GetSince(), req.GetUntil())
	if err != nil {
		return err
	}
	rules := req.GetRules()
	switch {
	case rules == 0:
		rules = someRules
	case rules < 0 || rules > maxRules:
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%d rules cannot be suggested", rules).
			WithRemedy("ask for 1 to %d", maxRules)
	}
	r, err := s.history.Suggest(ctx, q, int(rules), func(done int64) { _ = stream.Send(&v1.SuggestPolicyResponse{Done: done}) })
	if err != nil {
		return err
	}
	m := &v1.PolicySuggestion{}
	if err := wire.FromWord(r, m); err != nil {
		return err
	}
	return stream.Send(&v1.SuggestPolicyResponse{Done: r.Report.Records, Suggestion: m})
}

// query is the span of time that a request names.
func query(since, until *timestamppb.Timestamp) (wire.ReplayQuery, error) {
	var q wire.ReplayQuery
	for _, one := range []struct {
		in  *timestamppb.Timestamp
		out *time.Time
	}{{since, &q.Since}, {until, &q.Until}} {
		if one.in == nil {
			continue
		}
		if err := one.in.CheckValid(); err != nil {
			return q, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "since and until must be times").WithCause(err)
		}
		*one.out = one.in.AsTime()
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "since must come before until")
	}
	return q, nil
}
