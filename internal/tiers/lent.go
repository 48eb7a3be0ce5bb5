package tiers

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"palyra"
	"palyra/internal/egress"
	"palyra/internal/egress/lend"
	"palyra/internal/sandbox"
	"palyra/internal/signing"
	"palyra/secrets"
)

// Vault lends secrets to runs.
type Vault interface {
	// Usable returns the bindings of those names that a call may use, and whose secret is there.
	Usable(ctx context.Context, p palyra.Proposal, workspace string, names []string) ([]secrets.Binding, error)
	// Lend returns the values of a plan's bindings, each with what stands for it.
	Lend(ctx context.Context, p palyra.Proposal, plan palyra.Plan, stand func(value []byte) string) ([]secrets.Loan, error)
}

// gateway is a session of the guard as the sandbox knows it, with what was lent to the run.
type gateway struct {
	*egress.Session
	bindings []secrets.Binding
	bundles  []authorityFile
	uses     *uses           // nil: nothing was lent
	broker   *signing.Broker // nil: no key is lent to it
}

// lendTo lends the secrets of a plan's bindings to a session.
func (g egressGuard) lendTo(ctx context.Context, s *egress.Session, c *palyra.Call, p palyra.Plan) (gateway, error) {
	out := gateway{Session: s}
	if len(p.Bindings)+len(p.Signers) == 0 {
		return out, nil
	}
	of := palyra.SecretUsed{By: palyra.SystemDaemon, Upstream: secrets.UpstreamOf(ctx)}
	if of.Upstream != "" {
		c = serverCall()
	} else if c != nil {
		of.By, of.Call = c.Proposal.Principal, c.ID
	}
	if g.vault == nil || c == nil {
		return out, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "there is no vault to take secrets from").
			WithRemedy("propose the call without bindings")
	}
	loans, err := g.vault.Lend(ctx, c.Proposal, p, lend.Placeholder)
	if err != nil {
		return out, err
	}
	for _, l := range loans {
		out.bindings = append(out.bindings, l.Binding)
	}
	conf := g.signing
	conf.Lend = func(ctx context.Context, binding string) ([]secrets.Loan, error) {
		return g.vault.Lend(ctx, c.Proposal, palyra.Plan{Workspace: p.Workspace, Signers: []string{binding}}, lend.Placeholder)
	}
	if loans, err = out.signs(ctx, conf, c, loans); err != nil || len(loans) == 0 {
		return out, err
	}
	if out.bundles = systemBundles(); len(out.bundles) == 0 {
		for _, l := range loans {
			l.Value.Destroy()
		}
		return out, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "this machine has no file of authorities for programs to trust").
			WithRemedy("install them (package ca-certificates)")
	}
	out.uses = &uses{
		journal: g.record, bindings: out.bindings, of: of,
		stray: func(ctx context.Context, binding, host string) { g.stray(ctx, c, binding, host) },
	}
	s.Signs(func(host string, one lend.Signature) error { return g.signed(context.WithoutCancel(ctx), c, host, one) })
	return out, s.Lend(loans, out.bundles[0].path, func(host string, u lend.Use) { out.uses.note(ctx, host, u) })
}

// bundlePaths are where systems keep the authorities that programs trust, in one file.
var bundlePaths = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// maxBundle is the largest such file that is read.
const maxBundle = 8 << 20

// authorityFile is a file of authorities.
type authorityFile struct {
	path string
	text []byte
}

// systemBundles returns those that this system has.
func systemBundles() (all []authorityFile) {
	for _, p := range bundlePaths {
		real, err := filepath.EvalSymlinks(p)
		if err != nil || slices.ContainsFunc(all, func(b authorityFile) bool { return b.path == real }) {
			continue
		}
		if text, err := os.ReadFile(real); err == nil && len(text) <= maxBundle {
			all = append(all, authorityFile{real, text})
		}
	}
	return all
}

// Lent implements sandbox.Lending. Where the system has its authorities the room finds these and the run's own.
func (g gateway) Lent() (l sandbox.Lent, err error) {
	for _, b := range g.bundles {
		f, err := textFile(slices.Concat(b.text, []byte("\n"), g.Authority()))
		if err != nil {
			for _, c := range l.Covers {
				_ = c.File.Close()
			}
			return sandbox.Lent{}, err
		}
		l.Covers = append(l.Covers, sandbox.Cover{Path: b.path, File: f})
	}
	l.Mechanisms = secrets.Mechanisms(g.bindings)
	return l, nil
}
