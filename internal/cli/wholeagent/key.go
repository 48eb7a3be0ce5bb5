package wholeagent

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/config"
	"palyra/internal/show"
	"palyra/secrets"
)

// keys finds the key that is lent to an agent.
type keys struct {
	inv     *invocation.Invocation
	setup   Setup
	given   *proposal.Options
	options Options
}

// maxKey is the largest file with a key.
const maxKey = 16 << 10

// find returns the binding that lends the agent its key; nil where none does and none is needed.
func (k *keys) find(ctx context.Context) (*Lent, Key, error) {
	for _, key := range k.setup.Keys {
		if slices.Contains(k.given.Names(), key.Env) {
			return nil, Key{}, k.refused(key, "--env %s would put the key on record, in clear", key.Env)
		}
	}
	if k.options.keyFile != "" && !k.options.Print {
		if err := k.adopt(ctx); err != nil {
			return nil, Key{}, err
		}
	}
	bindings, err := k.bindings(ctx)
	if err != nil && !k.options.Print {
		return nil, Key{}, err
	}
	if lent, key := k.bound(bindings); lent != nil {
		return lent, key, nil
	}
	for _, key := range k.setup.Keys {
		if value, _ := k.inv.Variable(key.Env); value != "" && !k.options.Print {
			return nil, Key{}, k.refused(key, "%s stands in your environment, where all your programs see it: it is not passed on", key.Env)
		}
	}
	return nil, Key{}, nil
}

// refused is the error for a key that came in a way that is not taken.
func (k *keys) refused(key Key, format string, args ...any) error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonEnvDenied, format, args...).
		WithRemedy("%s. To sign in inside instead: env -u %s palyra agent run %s", k.setup.lends(key), key.Env, k.setup.Name)
}

// lends says how a key is lent.
func (s Setup) lends(key Key) string {
	return fmt.Sprintf("put it into the vault once: printenv %s | "+
		"palyra vault put %s --from-stdin && palyra vault bind %s --host %s --header %s --env %s; the agent has a placeholder then. "+
		"Or from a file that only you can read: --key-file FILE",
		key.Env, s.Name, s.Name, strings.TrimSuffix(key.Hosts[0], ":443"), key.Place, key.Env)
}

// sayNoKey says before a start without a window that no key goes along: nobody can sign in there.
func (o *Options) sayNoKey(inv *invocation.Invocation, st Start) {
	s, err := Find(st.Agent)
	if err != nil || !st.Headless || st.Key != nil || o.modelURL != "" || len(s.Keys) == 0 {
		return
	}
	inv.Say("palyra: no key is lent to %s, and without a window nobody can sign in: it works only where it was signed in inside before.\n"+
		"  To lend it a key: %s", s.Title, s.lends(s.Keys[0]))
}

func (k *keys) bindings(ctx context.Context) ([]secrets.Binding, error) {
	c, err := k.inv.Operator()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Bindings(ctx)
}

// bound is the binding that fits: one of the agent's name first.
func (k *keys) bound(all []secrets.Binding) (*Lent, Key) {
	slices.SortStableFunc(all, func(a, b secrets.Binding) int {
		return rank(a.Name == k.setup.Name) - rank(b.Name == k.setup.Name)
	})
	for _, b := range all {
		for _, key := range k.setup.Keys {
			if b.Env == key.Env && string(b.Kind) == key.Kind && strings.EqualFold(b.Place, key.Place) &&
				slices.ContainsFunc(key.Hosts, func(at string) bool { return slices.Contains(b.Hosts, at) }) {
				return &Lent{Binding: b.Name, Env: key.Env}, key
			}
		}
	}
	return nil, Key{}
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// adopt puts the key of a file into the vault, and binds it to its host.
func (k *keys) adopt(ctx context.Context) error {
	key := k.setup.Keys[0]
	raw, err := config.ReadPrivate(k.options.keyFile, maxKey)
	if config.Unsafe(err) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "the key in %s: the file %v", show.Line(k.options.keyFile), err).
			WithRemedy("make it yours alone: chmod 600 %s; others may have read it, so a new key is better still", show.Arg(k.options.keyFile))
	}
	if err != nil {
		return exit.Failedf(palyra.ReasonFileNotFound, "the key in %s: %v", show.Line(k.options.keyFile), err).
			WithRemedy("name a file with the key and nothing else, which only you can read")
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.ContainsAny(raw, " \t\r\n") {
		return exit.Failedf(palyra.ReasonMalformedInput, "%s has no key: one word is one", show.Line(k.options.keyFile)).
			WithRemedy("name a file with the key and nothing else")
	}
	c, err := k.inv.Operator()
	if err != nil {
		return err
	}
	defer c.Close()
	return k.put(ctx, c, key, palyra.NewSecret(raw))
}

func (k *keys) put(ctx context.Context, c *client.Client, key Key, value palyra.Secret) error {
	defer value.Destroy()
	name := k.setup.Name
	if _, err := c.PutSecret(ctx, secrets.Value{Scope: secrets.Global, Name: name, Value: value}); err != nil {
		return err
	}
	_, err := c.BindSecret(ctx, secrets.Binding{
		Name: name, Scope: secrets.Global, Secret: name, Kind: secrets.Kind(key.Kind), Place: key.Place, Hosts: key.Hosts, Env: key.Env,
	})
	if err == nil {
		k.inv.Say("palyra: the key of %s is in the vault now, as %s, for %s only; the file is not needed any more",
			show.Line(k.options.keyFile),
			show.Line(name), show.Line(strings.Join(key.Hosts, ", ")))
	}
	return err
}
