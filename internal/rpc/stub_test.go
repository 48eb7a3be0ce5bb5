package rpc_test

import (
	"context"
	"time"

	"palyra"
	"palyra/internal/access"
)

// rpctestRegistry answers everything and keeps nothing: the matrix must not change
// who is who while it goes on.
type rpctestRegistry struct{ *access.Registry } // only for what roles hold, which needs no state

func (rpctestRegistry) AddAgent(context.Context, string, palyra.Principal, palyra.Signature) (palyra.Agent, palyra.Secret, error) {
	return palyra.Agent{}, palyra.NewSecret([]byte("plyr_x")), nil
}

func (rpctestRegistry) Agents(context.Context) ([]palyra.Agent, error) { return nil, nil }

func (rpctestRegistry) RemoveAgent(context.Context, palyra.Principal, palyra.Signature) error {
	return nil
}

func (rpctestRegistry) AddOperator(_ context.Context, o palyra.Operator, _ palyra.Signature) (palyra.Operator, error) {
	return o, nil
}

func (rpctestRegistry) Operators(context.Context) ([]palyra.Operator, error) { return nil, nil }

func (rpctestRegistry) RemoveOperator(context.Context, string, palyra.Signature) error { return nil }

func (rpctestRegistry) AddUser(_ context.Context, u palyra.User, _ palyra.Signature) (palyra.User, error) {
	return u, nil
}

func (rpctestRegistry) Users(context.Context) ([]palyra.User, error) { return nil, nil }

func (rpctestRegistry) ChangeUser(_ context.Context, u palyra.User, _ palyra.Signature) (palyra.User, error) {
	return u, nil
}

func (rpctestRegistry) RemoveUser(context.Context, palyra.Principal, palyra.Signature) error {
	return nil
}

func (rpctestRegistry) AddToken(_ context.Context, t palyra.Token, _ time.Duration, _ palyra.Signature) (palyra.Token,
	palyra.Secret, error,
) {
	return t, palyra.NewSecret([]byte("plyr_x")), nil
}

func (rpctestRegistry) Tokens(context.Context) ([]palyra.Token, error) { return nil, nil }

func (rpctestRegistry) RevokeToken(context.Context, string, palyra.Signature) error { return nil }
