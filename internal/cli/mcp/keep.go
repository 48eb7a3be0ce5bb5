package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"palyra"
	"palyra/secrets"
)

// Vault is where the secrets of servers are kept.
type Vault interface {
	Secrets(ctx context.Context) ([]secrets.Info, error)
	PutSecret(ctx context.Context, in secrets.Value) (secrets.Info, error)
	DeleteSecret(ctx context.Context, scope secrets.Scope, name string, version int64) error
	Bindings(ctx context.Context) ([]secrets.Binding, error)
	BindSecret(ctx context.Context, b secrets.Binding) (secrets.Binding, error)
	UnbindSecret(ctx context.Context, name string) error
}

// Over says what Keep does about a secret or a binding that is there by the name it wants.
type Over int

// What is there by either name stays as it is, and is refused; but for what has the very same binding, as after an earlier
// time that was cut off; but for that, and for a secret without a binding. What is not refused has one version more then.
const (
	Nothing Over = iota
	Same
	Secret
)

// Keep puts a secret into the vault and binds it. Back takes back what was done, and is never nil; where it fails that is
// done already.
func Keep(ctx context.Context, v Vault, b secrets.Binding, value palyra.Secret, over Over,
) (info secrets.Info, back func() error, err error) {
	back = func() error { return nil }
	bound, err := vacant(ctx, v, b, over)
	if err != nil {
		return info, back, err
	}
	in := secrets.Value{Scope: b.Scope, Name: b.Secret, Value: value, First: !bound && over != Secret}
	if info, err = v.PutSecret(ctx, in); err != nil {
		return info, back, err
	}
	later := context.WithoutCancel(ctx)
	remove := func() error { return v.DeleteSecret(later, b.Scope, b.Secret, info.Version) }
	if bound {
		return info, remove, nil
	}
	if _, err := v.BindSecret(ctx, b); err != nil {
		return info, back, errors.Join(err, remove())
	}
	return info, func() error { return errors.Join(v.UnbindSecret(later, b.Name), remove()) }, nil
}

// vacant refuses names that are taken. Bound: by the very same, which may be done again.
func vacant(ctx context.Context, v Vault, b secrets.Binding, over Over) (bound bool, err error) {
	bindings, err := v.Bindings(ctx)
	if err != nil {
		return false, err
	}
	if i := slices.IndexFunc(bindings, func(o secrets.Binding) bool { return o.Name == b.Name }); i >= 0 {
		if over == Nothing || !sameUse(bindings[i], b) {
			return false, taken("binding", b.Name, "see 'palyra vault bindings'; if nobody needs it, remove it: palyra vault unbind "+b.Name)
		}
		return true, nil
	}
	if over == Secret {
		return false, nil
	}
	list, err := v.Secrets(ctx)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(list, func(i secrets.Info) bool { return i.Scope == b.Scope && i.Name == b.Secret }) {
		return false, taken("secret", b.Secret, "bind it and have the server use it (palyra mcp add --secret), or, if nobody needs it, "+
			"delete it: palyra vault delete "+b.Secret)
	}
	return false, nil
}

func taken(what, name, remedy string) error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "there is a %s %s already", what, name).WithRemedy("%s", remedy)
}

// sameUse reports whether two bindings say the same, but for who made them and when.
func sameUse(a, b secrets.Binding) bool {
	text := func(b secrets.Binding) string {
		return fmt.Sprintf("%q", []any{
			b.Name, b.Scope, b.Secret, b.Kind, b.Place, b.Hosts, b.Env, b.User, b.HostKeys, b.Agent, b.Key, b.PublicKey, b.Tools, b.Workspaces,
		})
	}
	return text(a) == text(b)
}
