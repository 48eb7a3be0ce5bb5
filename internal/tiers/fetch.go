package tiers

import (
	"context"
	"net/http"

	"palyra"
	"palyra/internal/egress/lend"
	"palyra/internal/tool/fetch"
	"palyra/secrets"
)

// Fetch is what the fetch tool stands on. Its hosts are those of the plan: nobody is asked on the way.
func (t *Tiers) Fetch() fetch.Config {
	c := fetch.Config{
		Hosts: t.Guard,
		Open: func(ctx context.Context, p palyra.Plan) (fetch.Gateway, error) {
			s, err := t.Guard.Open(ctx, nil, p)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
	if t.Vault != nil {
		c.Secrets = fetchSecrets{t}
	}
	return c
}

// fetchSecrets lends secrets to the fetch tool.
type fetchSecrets struct{ t *Tiers }

// Usable implements fetch.Secrets.
func (s fetchSecrets) Usable(ctx context.Context, p palyra.Proposal, workspace string, names []string) ([]secrets.Binding, error) {
	return s.t.Vault.Usable(ctx, p, workspace, names)
}

// Lend implements fetch.Secrets.
func (s fetchSecrets) Lend(ctx context.Context, call palyra.CallID, p palyra.Proposal, plan palyra.Plan) (fetch.Lent, error) {
	loans, err := s.t.Vault.Lend(ctx, p, plan, lend.Placeholder)
	if err != nil {
		return nil, err
	}
	desk := lend.Direct(loans)
	if len(loans) != len(plan.Bindings) {
		desk.Close()
		return nil, palyra.PlanChanged("the secrets it gets")
	}
	return &direct{Desk: desk, ctx: ctx, uses: &uses{
		journal: s.t.recordUse, bindings: desk.Bindings(), of: palyra.SecretUsed{By: p.Principal, Call: call},
		stray: func(ctx context.Context, binding, host string) {
			s.t.strayPlaceholder(ctx, &palyra.Call{ID: call, Proposal: p}, binding, host)
		},
	}}, nil
}

// direct is the secrets of requests that the daemon makes itself.
type direct struct {
	*lend.Desk
	ctx  context.Context // of what makes the requests, which it does not outlive
	uses *uses
}

// Fill implements fetch.Lent.
func (d *direct) Fill(r *http.Request, at string) error {
	lend.EncodeBasic(r.Header)
	u, err := d.Desk.Fill(r, at)
	d.uses.note(d.ctx, at, u)
	return err
}

// Close implements fetch.Lent.
func (d *direct) Close() {
	d.Desk.Close()
	d.uses.record(d.ctx)
}
