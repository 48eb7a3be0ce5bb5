package policy

import (
	"context"
	"errors"
	"testing"
	"time"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

type fake struct {
	err   error
	limit int
	who   rpc.Caller
	to    palyra.Digest
}

var (
	activation = wire.Activation{
		Number: 3, Bundle: palyra.SumBytes(nil), Snapshot: palyra.SumBytes([]byte("s")), By: "user:ada",
		At: time.Unix(9, 0).UTC(), InForce: true,
	}
	check = wire.PolicyCheck{Policies: 2, Warnings: []string{"w"}, Tests: []wire.PolicyTest{{File: "tests/a.yaml", Name: "n", OK: true}}}
)

func (f *fake) Check(context.Context, map[string]string) (wire.PolicyCheck, error) {
	return check, f.err
}

func (f *fake) Apply(_ context.Context, who rpc.Caller, _ map[string]string, _ bool) (wire.PolicyCheck, wire.Activation, error) {
	f.who = who
	return check, activation, f.err
}

func (f *fake) Rollback(_ context.Context, who rpc.Caller, d palyra.Digest, _ bool) (wire.Activation, error) {
	f.who, f.to = who, d
	return activation, f.err
}

func (f *fake) Activations(_ context.Context, limit int) ([]wire.Activation, error) {
	f.limit = limit
	return []wire.Activation{activation}, f.err
}

// The one who signed reaches the part, and its words the caller.
func TestBundlesAreHandedOn(t *testing.T) {
	f := &fake{}
	s := New(nil, f, nil)
	who := rpc.Caller{Principal: "user:ada", Signed: true}
	ctx := rpc.WithCaller(t.Context(), who)
	applied, err := s.ApplyPolicy(ctx, &v1.ApplyPolicyRequest{Files: map[string]string{"a.cedar": "x"}})
	if err != nil || f.who.Principal != "user:ada" || !f.who.Signed || applied.GetActivation().GetNumber() != 3 ||
		applied.GetCheck().GetPolicies() != 2 {
		t.Errorf("%v, %v, %+v", applied, err, f.who)
	}
	f.who = rpc.Caller{}
	back, err := s.RollbackPolicy(ctx, &v1.RollbackPolicyRequest{BundleDigest: string(activation.Bundle)})
	if err != nil || f.who.Principal != "user:ada" || f.to != activation.Bundle || !back.GetActivation().GetInForce() {
		t.Errorf("%v, %v", back, err)
	}
	looked, err := s.CheckPolicy(ctx, &v1.CheckPolicyRequest{})
	if err != nil || len(looked.GetCheck().GetTests()) != 1 || looked.GetCheck().GetWarnings()[0] != "w" {
		t.Errorf("%v, %v", looked, err)
	}
}

func TestActivationLimits(t *testing.T) {
	f := &fake{}
	s := New(nil, f, nil)
	for asked, want := range map[int64]int{0: someActivations, 1: 1, maxActivations: maxActivations, -1: -1, maxActivations + 1: -1} {
		f.limit = -1
		res, err := s.ListActivations(t.Context(), &v1.ListActivationsRequest{Limit: asked})
		if f.limit != want || want < 0 && palyra.CodeOf(err) != palyra.Invalid || want > 0 && (err != nil || len(res.GetActivations()) != 1) {
			t.Errorf("%d: %d, %v", asked, f.limit, err)
		}
	}
}

func TestBundleFaults(t *testing.T) {
	f := &fake{err: errors.New("no")}
	s := New(nil, f, nil)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"check":    func() error { _, err := s.CheckPolicy(ctx, &v1.CheckPolicyRequest{}); return err },
		"apply":    func() error { _, err := s.ApplyPolicy(ctx, &v1.ApplyPolicyRequest{}); return err },
		"rollback": func() error { _, err := s.RollbackPolicy(ctx, &v1.RollbackPolicyRequest{}); return err },
		"list":     func() error { _, err := s.ListActivations(ctx, &v1.ListActivationsRequest{}); return err },
	} {
		if err := call(); !errors.Is(err, f.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.RollbackPolicy(ctx, &v1.RollbackPolicyRequest{BundleDigest: "latest"}); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("not a digest: %v", err)
	}
}
