package vault

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/store"
	"palyra/secrets"
)

// ProviderKey returns the value of a binding of the kind provider to the part that asks a provider of models at
// host:port. Its use is on record then. The caller destroys it.
func (v *Vault) ProviderKey(ctx context.Context, provider, binding, at string) (palyra.Secret, error) {
	b, err := v.binding(ctx, binding)
	if err != nil {
		return palyra.Secret{}, err
	}
	if b.Kind != secrets.Provider {
		return palyra.Secret{}, palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "the binding %s is for a %s, not for a provider of models",
			b.Name, b.Kind).WithRemedy("bind the key anew: palyra vault bind %s --secret %s --provider --host %s", b.Name, b.Secret, at)
	}
	if !slices.Contains(b.Hosts, at) {
		return palyra.Secret{}, palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "the binding %s is for %s, and the provider %s is at %s",
			b.Name, strings.Join(b.Hosts, ", "), provider, at).
			WithRemedy("bind the key to that host, if it is meant: palyra vault bind %s --secret %s --provider --host %s", b.Name, b.Secret, at)
	}
	value, _, err := v.Get(ctx, b.Scope, b.Secret, 0)
	if err != nil {
		return value, err
	}
	err = v.DB.Write(ctx, "secret.used", func(tx *store.Tx) error {
		_, err := v.Journal.Append(tx, palyra.SecretUsed{
			Binding: b.Name, Scope: string(b.Scope), Secret: b.Secret, Host: at, Count: 1, By: palyra.SystemDaemon, Provider: provider,
		})
		return err
	})
	if err != nil {
		value.Destroy()
		return palyra.Secret{}, fmt.Errorf("vault: use: %w", err)
	}
	return value, nil
}
