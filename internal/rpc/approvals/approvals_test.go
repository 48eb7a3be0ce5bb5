package approvals

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
)

func TestFilter(t *testing.T) {
	f, err := filter(nil)
	if err != nil || f.Limit != 0 || f.Pending {
		t.Errorf("%+v %v", f, err)
	}
	f, err = filter(&v1.ApprovalFilter{Answer: "deny", Limit: 3, Since: timestamppb.New(timestamppb.Now().AsTime()), OldestFirst: true})
	if err != nil || f.Answer != palyra.AnswerDeny || f.Limit != 3 || f.Since.IsZero() || !f.OldestFirst {
		t.Errorf("%+v %v", f, err)
	}
	for name, m := range map[string]*v1.ApprovalFilter{
		"negative":             {Limit: -1},
		"pending and answered": {Pending: true, Answer: "allow"},
		"no such time":         {Since: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		if _, err := filter(m); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Even a chain that let it through by mistake must not make a vote without
// evidence.
func TestUnsignedVoteIsImpossible(t *testing.T) {
	s := New(nil, nil, nil) // the desk must not be reached
	for _, ctx := range []rpc.Caller{{}, {Principal: "user:alice", Role: palyra.RoleOwner}} {
		_, err := s.DecideApproval(rpc.WithCaller(t.Context(), ctx), &v1.DecideApprovalRequest{ApprovalId: "A", Answer: "allow"})
		if palyra.AsError(err).Reason != palyra.ReasonSignatureRequired {
			t.Errorf("%v", err)
		}
	}
}
