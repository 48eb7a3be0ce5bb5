package client

import (
	"context"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// The words of bundles that operators own.
type (
	// PolicyCheck is the result of checking a bundle before it is in force.
	PolicyCheck = wire.PolicyCheck
	// PolicyProblem is one thing wrong with a bundle.
	PolicyProblem = wire.PolicyProblem
	// PolicyTest is how one test of a bundle ended.
	PolicyTest = wire.PolicyTest
	// Activation is a bundle and the configuration that it came into force with.
	Activation = wire.Activation
)

// CheckPolicy reads a bundle, given as texts by file name, as ApplyPolicy would. Nothing changes. A
// faulty bundle is a result and no error.
func (c *Client) CheckPolicy(ctx context.Context, files map[string]string) (PolicyCheck, error) {
	res, err := c.policy().CheckPolicy(ctx, &v1.CheckPolicyRequest{Files: files})
	return word[PolicyCheck](res.GetCheck(), err)
}

// ApplyPolicy puts a bundle into force (signed). On any fault the one in force stays. Force applies it even if nobody
// could then answer approvals or change policy back.
func (c *Client) ApplyPolicy(ctx context.Context, files map[string]string, force bool) (PolicyCheck, Activation, error) {
	res, err := c.policy().ApplyPolicy(ctx, &v1.ApplyPolicyRequest{Files: files, Force: force})
	check, err := word[PolicyCheck](res.GetCheck(), err)
	if err != nil {
		return PolicyCheck{}, Activation{}, err
	}
	a, err := word[Activation](res.GetActivation(), nil)
	return check, a, err
}

// RollbackPolicy puts an earlier bundle back into force (signed); an empty digest means the one before the present.
func (c *Client) RollbackPolicy(ctx context.Context, bundle palyra.Digest, force bool) (Activation, error) {
	res, err := c.policy().RollbackPolicy(ctx, &v1.RollbackPolicyRequest{BundleDigest: string(bundle), Force: force})
	return word[Activation](res.GetActivation(), err)
}

// Activations lists the bundles that were put into force, newest first; a limit of 0 means the daemon's default.
func (c *Client) Activations(ctx context.Context, limit int64) ([]Activation, error) {
	res, err := c.policy().ListActivations(ctx, &v1.ListActivationsRequest{Limit: limit})
	return words[Activation](res, err, "activations")
}
