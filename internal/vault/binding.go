package vault

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/store"
	"palyra/secrets"
)

// bindingScope is the scope under which the manifest has bindings. No secret is in it.
const bindingScope = "binding"

// kindBinding is the digest of a binding in the manifest.
const kindBinding = "palyra vault: binding 1"

func bindingIdent(name string) ident { return ident{bindingScope, name, 1} }

func bindingLeaf(name string, record []byte) leaf {
	return sha256.Sum256(encode(kindBinding, name, record))
}

// secretLeaves counts the leaves that are versions of secrets.
func secretLeaves(leaves map[ident]leaf) (n int) {
	for i := range leaves {
		if i.isRow() && i.scope != ownScope {
			n++
		}
	}
	return n
}

// rowLeaves counts the leaves that are rows of secrets, the daemon's own among them.
func rowLeaves(leaves map[ident]leaf) (n int) {
	for i := range leaves {
		if i.isRow() {
			n++
		}
	}
	return n
}

func (i ident) isRow() bool { return i.scope != bindingScope && i.scope != recipientScope }

// loadBindings adds the bindings' leaves, and returns them.
func loadBindings(tx *store.Tx, leaves map[ident]leaf) (map[string]secrets.Binding, error) {
	all := map[string]secrets.Binding{}
	err := tx.Each(`SELECT name, record FROM vault_bindings`, nil, func(scan func(...any) error) error {
		var name string
		var record []byte
		if err := scan(&name, &record); err != nil {
			return err
		}
		leaves[bindingIdent(name)] = bindingLeaf(name, record)
		var b secrets.Binding
		if json.Unmarshal(record, &b) != nil || b.Name != name {
			return damaged(fmt.Sprintf("the binding %s cannot be read", palyra.Clip(name, 128)))
		}
		all[name] = b
		return nil
	})
	return all, err
}

// Bind keeps a binding, in the place of one with its name. Who says where a value goes can have it come to them: that
// takes the right to be shown it.
func (v *Vault) Bind(ctx context.Context, b secrets.Binding, by secrets.By) (secrets.Binding, error) {
	if err := b.Check(); err != nil {
		return b, err
	}
	for _, action := range []string{"vault.put", "vault.get"} {
		if err := v.permit(ctx, by, action, b.Scope, b.Subject()); err != nil {
			return b, err
		}
	}
	hosts, err := v.Hosts(b.Hosts)
	if err != nil {
		return b, err
	}
	if b, err = v.inspect(ctx, b, hosts); err != nil {
		return b, err
	}
	if err := v.usableBy(ctx, b); b.Agent == "" && palyra.CodeOf(err) == palyra.Invalid {
		return b, err // a secret that is not there, or cannot be opened now, may be bound
	}
	b.Hosts, b.CreatedBy, b.CreatedAt = hosts, by.Principal, v.Now().UTC()
	record, err := json.Marshal(b)
	if err != nil {
		return b, fmt.Errorf("vault: bind: %w", err)
	}
	return b, v.change(ctx, "vault.bind", by, func(tx *store.Tx, c *change) error {
		was, known := c.bindings[b.Name]
		if known {
			if err := v.permit(ctx, by, "vault.delete", was.Scope, was.Subject()); err != nil {
				return err
			}
		}
		if !known && len(c.bindings) >= secrets.MaxBindings {
			return tooManyBindings()
		}
		c.event.Scope, c.event.Name, c.event.Binding = string(b.Scope), b.Secret, b.Name
		return c.bind(tx, b, record)
	})
}

func tooManyBindings() *palyra.Error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "there are %d bindings, the most there can be", secrets.MaxBindings).
		WithRemedy("remove what nobody needs: palyra vault unbind")
}

// bind keeps a binding by its record.
func (c *change) bind(tx *store.Tx, b secrets.Binding, record []byte) error {
	_, err := tx.Exec(`INSERT INTO vault_bindings (name, record) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET record=excluded.record`,
		b.Name, record)
	c.bindings[b.Name], c.leaves[bindingIdent(b.Name)] = b, bindingLeaf(b.Name, record)
	return err
}

// inspect completes the binding of a key. The key must be there: which one it is belongs to the binding.
func (v *Vault) inspect(ctx context.Context, b secrets.Binding, hosts []string) (secrets.Binding, error) {
	if !b.Kind.Keys() {
		return b, nil
	}
	b.Hosts = hosts
	var value palyra.Secret
	if b.Agent == "" {
		var err error
		if value, _, err = v.Get(ctx, b.Scope, b.Secret, 0); err != nil {
			return b, err
		}
		defer value.Destroy()
	}
	return v.Inspect(ctx, b, value)
}

// Unbind removes a binding.
func (v *Vault) Unbind(ctx context.Context, name string, by secrets.By) error {
	if _, err := v.binding(ctx, name); err != nil { // a vault that has nothing does not begin by this
		return err
	}
	return v.change(ctx, "vault.unbind", by, func(tx *store.Tx, c *change) error {
		b, ok := c.bindings[name]
		if !ok {
			return noBinding(name)
		}
		if err := v.permit(ctx, by, "vault.delete", b.Scope, b.Subject()); err != nil {
			return err
		}
		delete(c.bindings, name)
		delete(c.leaves, bindingIdent(name))
		c.event.Scope, c.event.Name, c.event.Binding = string(b.Scope), b.Secret, name
		_, err := tx.Exec(`DELETE FROM vault_bindings WHERE name=?`, name)
		return err
	})
}

func noBinding(name string) *palyra.Error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no binding %s", palyra.Clip(name, 128)).
		WithRemedy("see 'palyra vault bindings', or make it: palyra vault bind")
}

// Bindings lists the bindings.
func (v *Vault) Bindings(ctx context.Context) ([]secrets.Binding, error) {
	h, err := v.hold(ctx)
	if errors.Is(err, errNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Values(h.bindings), func(a, b secrets.Binding) int { return strings.Compare(a.Name, b.Name) }), nil
}

// binding returns a binding.
func (v *Vault) binding(ctx context.Context, name string) (secrets.Binding, error) {
	h, err := v.hold(ctx)
	if errors.Is(err, errNone) {
		return secrets.Binding{}, noBinding(name)
	}
	if err != nil {
		return secrets.Binding{}, err
	}
	defer v.mu.RUnlock()
	b, ok := h.bindings[name]
	if !ok {
		return b, noBinding(name)
	}
	return b, nil
}

// Usable returns the bindings of those names as a call may use them: those whose secret is there. A name that is not
// known, or that is not for the call, is an error.
func (v *Vault) Usable(ctx context.Context, p palyra.Proposal, workspace string, names []string) (have []secrets.Binding, err error) {
	for _, name := range names {
		b, err := v.binding(ctx, name)
		if err != nil {
			return nil, err
		}
		fits := b.Fits(p.Tool, workspace)
		if of := secrets.UpstreamOf(ctx); of != "" {
			fits = b.FitsUpstream(of, workspace)
		}
		if !fits || !inScope(b.Scope, p) {
			return nil, palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "the binding %s is not for this call", name).
				WithRemedy("see 'palyra vault bindings': an operator says for which tools, workspaces and principals it is")
		}
		if b.Agent != "" { // somebody else has the key, and says so when it is needed
			have = append(have, b)
			continue
		}
		switch err := v.usableBy(ctx, b); {
		case palyra.CodeOf(err) == palyra.NotFound, palyra.CodeOf(err) == palyra.Expired:
			continue
		case err != nil:
			return nil, err
		}
		have = append(have, b)
	}
	return have, nil
}

// usableBy finds out that the secret of a binding is there, and is what the binding needs.
func (v *Vault) usableBy(ctx context.Context, b secrets.Binding) error {
	value, _, err := v.Get(ctx, b.Scope, b.Secret, 0)
	if err != nil {
		return err
	}
	defer value.Destroy()
	return value.Use(b.Kind.CheckValue)
}

// fit refuses a value that a binding of its secret cannot use.
func (c *change) fit(in secrets.Value) error {
	for _, b := range c.bindings {
		if b.Scope == in.Scope && b.Secret == in.Name {
			if err := in.Value.Use(b.Kind.CheckValue); err != nil {
				return err
			}
		}
	}
	return nil
}

// inScope reports whether a secret of a scope is for a proposal.
func inScope(s secrets.Scope, p palyra.Proposal) bool {
	kind, id, _ := strings.Cut(string(s), ":")
	switch kind {
	case string(secrets.Global):
		return true
	case "principal":
		return id == string(p.Principal) || id == string(p.Owner)
	case "session":
		return id == string(p.Session)
	}
	return false // channels and skills have calls of their own
}

// Lend lends the secrets of a plan's bindings to a run: the values of the usable ones, each with its placeholder. Whoever
// gets them destroys the values.
func (v *Vault) Lend(ctx context.Context, p palyra.Proposal, plan palyra.Plan, stand func(value []byte) string) (out []secrets.Loan,
	err error,
) {
	defer func() {
		if err != nil {
			for _, l := range out {
				l.Value.Destroy()
			}
			out = nil
		}
	}()
	have, err := v.Usable(ctx, p, plan.Workspace.Path, slices.Concat(plan.Bindings, plan.Signers))
	if err != nil {
		return nil, err
	}
	for _, b := range have {
		if b.Agent != "" {
			out = append(out, secrets.Loan{Binding: b})
			continue
		}
		value, _, err := v.Get(ctx, b.Scope, b.Secret, 0)
		if err != nil {
			return out, err
		}
		l := secrets.Loan{Binding: b, Value: value}
		if b.Kind.Keys() { // nothing stands for a key
			out = append(out, l)
			continue
		}
		if err := value.Use(func(raw []byte) error { l.Placeholder = stand(raw); return nil }); err != nil {
			return append(out, l), err
		}
		out = append(out, l)
	}
	return out, nil
}
