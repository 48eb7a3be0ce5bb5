package policy

import (
	"context"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Bundles are the policies that are, were and may come into force.
type Bundles interface {
	// Check reads a bundle as Apply would, and changes nothing.
	Check(ctx context.Context, files map[string]string) (wire.PolicyCheck, error)
	// Apply puts a bundle into force for who signed; on any fault the one in force
	// stays. Force applies it although somebody would lose their say.
	Apply(ctx context.Context, who rpc.Caller, files map[string]string, force bool) (wire.PolicyCheck, wire.Activation, error)
	// Rollback puts a bundle that was in force back; an empty digest means the one before the present.
	Rollback(ctx context.Context, who rpc.Caller, d palyra.Digest, force bool) (wire.Activation, error)
	// Activations lists what was put into force, newest first.
	Activations(ctx context.Context, limit int) ([]wire.Activation, error)
}

// How many activations an answer holds.
const (
	someActivations = 50
	maxActivations  = 500
)

// CheckPolicy implements the method.
func (s *Service) CheckPolicy(ctx context.Context, req *v1.CheckPolicyRequest) (*v1.CheckPolicyResponse, error) {
	c, err := s.bundles.Check(ctx, req.GetFiles())
	res := &v1.CheckPolicyResponse{Check: &v1.PolicyCheck{}}
	return wire.Answer(res, res.GetCheck(), c, err)
}

// ApplyPolicy implements the method.
func (s *Service) ApplyPolicy(ctx context.Context, req *v1.ApplyPolicyRequest) (*v1.ApplyPolicyResponse, error) {
	c, a, err := s.bundles.Apply(ctx, rpc.CallerOf(ctx), req.GetFiles(), req.GetForce())
	if err != nil {
		return nil, err
	}
	res := &v1.ApplyPolicyResponse{Check: &v1.PolicyCheck{}, Activation: &v1.Activation{}}
	if err := wire.FromWord(c, res.GetCheck()); err != nil {
		return nil, err
	}
	return res, wire.FromWord(a, res.GetActivation())
}

// RollbackPolicy implements the method.
func (s *Service) RollbackPolicy(ctx context.Context, req *v1.RollbackPolicyRequest) (*v1.RollbackPolicyResponse, error) {
	d := palyra.Digest(req.GetBundleDigest())
	if d != "" && !d.Valid() {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q is not a digest", palyra.Clip(string(d), 80))
	}
	a, err := s.bundles.Rollback(ctx, rpc.CallerOf(ctx), d, req.GetForce())
	res := &v1.RollbackPolicyResponse{Activation: &v1.Activation{}}
	return wire.Answer(res, res.GetActivation(), a, err)
}

// ListActivations implements the method.
func (s *Service) ListActivations(ctx context.Context, req *v1.ListActivationsRequest) (*v1.ListActivationsResponse, error) {
	limit := req.GetLimit()
	switch {
	case limit == 0:
		limit = someActivations
	case limit < 0 || limit > maxActivations:
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a limit of %d is none", limit).
			WithRemedy("ask for 1 to %d", maxActivations)
	}
	all, err := s.bundles.Activations(ctx, int(limit))
	res := &v1.ListActivationsResponse{}
	return wire.Answer(res, res, map[string]any{"activations": all}, err)
}
