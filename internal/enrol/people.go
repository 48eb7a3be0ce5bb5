package enrol

import (
	"context"
	"slices"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/workspace"
)

// People is the registry, which does not know workspaces: whoever is bound to one must be bound to one that is
// registered, or a wrong letter would bind them to nothing without a word.
type People struct {
	*access.Registry
	Workspaces *workspace.Registry
}

// AddUser implements the door's People.
func (p People) AddUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error) {
	if err := p.registered(ctx, u.Workspaces); err != nil {
		return palyra.User{}, err
	}
	return p.Registry.AddUser(ctx, u, sig)
}

// ChangeUser implements the door's People.
func (p People) ChangeUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error) {
	if err := p.registered(ctx, u.Workspaces); err != nil {
		return palyra.User{}, err
	}
	return p.Registry.ChangeUser(ctx, u, sig)
}

// AddToken implements the door's Tokens.
func (p People) AddToken(ctx context.Context, t palyra.Token, ttl time.Duration, sig palyra.Signature) (palyra.Token, palyra.Secret,
	error,
) {
	if err := p.registered(ctx, t.Workspaces); err != nil {
		return palyra.Token{}, palyra.Secret{}, err
	}
	return p.Registry.AddToken(ctx, t, ttl, sig)
}

func (p People) registered(ctx context.Context, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	known, err := p.Workspaces.List(ctx)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !slices.ContainsFunc(known, func(w palyra.Workspace) bool { return w.Path == path }) {
			return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "%s is not a registered workspace", palyra.Clip(path, 256)).
				WithRemedy("'palyra workspace list' shows them; register it first with 'palyra workspace add'")
		}
	}
	return nil
}

// Weakest is the weakest level of a key that may decide: a chain is as strong as that.
func Weakest(ctx context.Context, r *access.Registry) (palyra.Separation, error) {
	all, err := r.Operators(ctx)
	if err != nil {
		return "", err
	}
	weakest := palyra.SeparationOtherUID
	for _, o := range all {
		if o.RemovedAt.IsZero() && o.Separation.Rank() < weakest.Rank() {
			weakest = o.Separation
		}
	}
	devices, err := r.Devices(ctx)
	if slices.ContainsFunc(devices, palyra.Device.Live) && palyra.SeparationDevice.Rank() < weakest.Rank() {
		weakest = palyra.SeparationDevice // their keys decide too
	}
	return weakest, err
}
