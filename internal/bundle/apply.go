package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/inforce"
	"palyra/internal/policy/tables"
	"palyra/internal/rpc/wire"
)

// Caller is who wants other policies in force, as a door knows them.
type Caller struct {
	Principal palyra.Principal
	Role      palyra.Role
	Signed    bool
	Evidence  palyra.Signature
}

// Check reads a bundle, runs its tests and says which powers owners would lose.
func (d *Bundles) Check(ctx context.Context, files map[string]string) (wire.PolicyCheck, error) {
	_, check, _, err := d.examine(ctx, files)
	return check, err
}

// examine reads a bundle, runs its tests and looks for powers that owners would lose. The bundle is nil when
// it is not good.
func (d *Bundles) examine(ctx context.Context, files map[string]string) (*policy.Bundle, wire.PolicyCheck, []inforce.Loss, error) {
	b, report := readWithin(ctx, files)
	if err := context.Cause(ctx); err != nil {
		return nil, wire.PolicyCheck{}, nil, givenUp(err)
	}
	check := wire.PolicyCheck{Bundle: report.Digest, Policies: int64(report.Policies), Problems: problemWords(report.Problems)}
	if b == nil {
		return nil, check, nil, nil
	}
	good := d.tests(ctx, b, &check)
	if err := context.Cause(ctx); err != nil {
		return nil, check, nil, givenUp(err)
	}
	lost, err := d.lostPowers(ctx, b)
	if err != nil {
		return nil, check, nil, err
	}
	for _, l := range lost {
		check.Warnings = append(check.Warnings, l.Text)
	}
	if !good {
		b = nil
	}
	return b, check, lost, nil
}

// Examine reads a bundle and runs its tests. The bundle is nil when it is not good.
func (d *Bundles) Examine(ctx context.Context, files map[string]string) (*policy.Bundle, wire.PolicyCheck, error) {
	b, check, _, err := d.examine(ctx, files)
	return b, check, err
}

// readBudget is the time that reading and checking a bundle's policies may take;
// its tests have a budget of their own.
const readBudget = time.Minute

func readWithin(ctx context.Context, files map[string]string) (*policy.Bundle, policy.Report) {
	ctx, cancel := context.WithTimeout(ctx, readBudget)
	defer cancel()
	return policy.CheckWithin(ctx, files)
}

// givenUp is the answer to a caller who did not wait for it.
func givenUp(cause error) error {
	return palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "policy bundle: not examined to its end, since whoever asked gave up").
		WithRemedy("ask again and wait longer; the policies in force stay as they are").WithCause(cause)
}

// tests runs the bundle's own tests, and reports whether all went well.
func (d *Bundles) tests(ctx context.Context, b *policy.Bundle, check *wire.PolicyCheck) bool {
	results, problems := tables.Run(ctx, d.Judging(b), b.Files())
	check.Problems = append(check.Problems, problemWords(problems)...)
	good := len(problems) == 0
	for _, r := range results {
		check.Tests = append(check.Tests, wire.PolicyTest{File: r.File, Name: r.Name, Line: int64(r.Line), OK: r.OK, Text: r.Text})
		good = good && r.OK
	}
	return good
}

func problemWords(list []policy.Problem) []wire.PolicyProblem {
	var out []wire.PolicyProblem
	for _, p := range list {
		out = append(out, wire.PolicyProblem{File: p.File, Line: int64(p.Line), Column: int64(p.Column), Text: p.Text})
	}
	return out
}

// Apply puts a bundle into force.
func (d *Bundles) Apply(ctx context.Context, who Caller, files map[string]string, force bool) (wire.PolicyCheck, wire.Activation, error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	if err := context.Cause(ctx); err != nil { // the caller may have left while an earlier change held the lock
		return wire.PolicyCheck{}, wire.Activation{}, givenUp(err)
	}
	author, err := d.author(ctx, who)
	if err != nil {
		return wire.PolicyCheck{}, wire.Activation{}, err
	}
	b, check, lost, err := d.examine(ctx, files)
	if err == nil && b == nil {
		err = bundleRefusal(check)
	}
	if err == nil {
		err = d.refuseLoss(ctx, b, who, lost, force)
	}
	if err != nil {
		return check, wire.Activation{}, err
	}
	a, err := d.put(ctx, b, author)
	if err != nil {
		return check, wire.Activation{}, err
	}
	d.Log.Info("other policies are in force", "by", author.By, "bundle", a.Bundle)
	return check, activationWords(a, true), nil
}

// Rollback puts earlier policies back into force: those with the digest, or the ones before the present.
func (d *Bundles) Rollback(ctx context.Context, who Caller, digest palyra.Digest, force bool) (wire.Activation, error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	author, err := d.author(ctx, who)
	if err != nil {
		return wire.Activation{}, err
	}
	if digest == "" {
		last, err := d.kept.Before(ctx)
		if palyra.CodeOf(err) == palyra.NotFound {
			return wire.Activation{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no other policies were in force before").
				WithRemedy("see 'palyra policy history'")
		}
		if err != nil {
			return wire.Activation{}, err
		}
		digest = last.Bundle
	}
	b, err := d.kept.Bundle(ctx, digest)
	if err != nil {
		return wire.Activation{}, err
	}
	lost, err := d.lostPowers(ctx, b)
	if err == nil {
		err = d.refuseLoss(ctx, b, who, lost, force)
	}
	if err != nil {
		return wire.Activation{}, err
	}
	a, err := d.put(ctx, b, author)
	if err != nil {
		return wire.Activation{}, err
	}
	d.Log.Info("earlier policies are in force again", "by", author.By, "bundle", a.Bundle)
	return activationWords(a, true), nil
}

// Activations lists what was in force, the present first.
func (d *Bundles) Activations(ctx context.Context, limit int) ([]wire.Activation, error) {
	all, err := d.kept.History(ctx, limit)
	out := make([]wire.Activation, len(all))
	for i, a := range all {
		out[i] = activationWords(a, i == 0)
	}
	return out, err
}

func activationWords(a inforce.Activation, inForce bool) wire.Activation {
	return wire.Activation{Number: a.Number, Bundle: a.Bundle, Snapshot: a.Snapshot, By: a.By, At: a.At, InForce: inForce}
}

// author is the caller as the author of a change, if the policies in force let them change policy.
func (d *Bundles) author(ctx context.Context, who Caller) (inforce.Author, error) {
	if !who.Signed {
		return inforce.Author{}, palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRequired, "a change of policy must be signed")
	}
	by := who.Principal
	if ok, hits := d.engine.AuthorizeAction(ctx, by, []palyra.Role{who.Role}, string(palyra.PermitPolicyWrite), "Policy",
		inforce.TheBundle); !ok {
		var said []string
		for _, h := range hits {
			if h.Remedy != "" && !slices.Contains(said, h.Remedy) {
				said = append(said, h.Remedy)
			}
		}
		return inforce.Author{}, palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "policy does not let %s change policy", by).
			WithRemedy("%s", strings.Join(append(said, "have somebody apply it who may; where nobody may any more: "+WayBack), "; "))
	}
	sig, err := abridged(who.Evidence)
	return inforce.Author{By: by, Signature: &sig}, err
}

// maxEvidence bounds a signature that is kept: a line of the journal is bounded, and a longer one would stand
// there as a digest only.
const maxEvidence = 48 << 10

// abridged is a signature with the digests of the bundle's texts in place of them. The texts are kept once, under
// the bundle's digest; with them the request that was signed can be put together again.
func abridged(sig palyra.Signature) (palyra.Signature, error) {
	if files, ok := sig.Fields["files"].(map[string]any); ok {
		digests := make(map[string]any, len(files))
		for name, text := range files {
			s, _ := text.(string)
			digests[name] = string(palyra.SumBytes([]byte(s)))
		}
		sig.Fields = maps.Clone(sig.Fields)
		sig.Fields["files"] = digests
	}
	raw, err := json.Marshal(sig)
	if err != nil {
		return palyra.Signature{}, fmt.Errorf("bundle: signature: %w", err)
	}
	if len(raw) > maxEvidence {
		return palyra.Signature{}, palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "the bundle has too many files to be on record").
			WithRemedy("put the policies into fewer files, or give their directory as policy.dir in the configuration")
	}
	return sig, nil
}

// bundleRefusal is the refusal of a bundle.
func bundleRefusal(c wire.PolicyCheck) error {
	const most = 10
	var lines []string
	for _, p := range c.Problems {
		lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text))
	}
	for _, t := range c.Tests {
		if !t.OK {
			lines = append(lines, fmt.Sprintf("%s:%d: %s: %s", t.File, t.Line, t.Name, t.Text))
		}
	}
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most], fmt.Sprintf("and %d more", more))
	}
	return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: %s", strings.Join(lines, "; ")).
		WithRemedy("correct it; 'palyra policy check DIR' lists everything, and the policies in force stay as they are")
}

// WayBack are the commands that lead out of policies which let nobody change them. They need the state's
// files and no permission of a policy.
const WayBack = "palyra down; palyra policy rollback --offline; palyra up --detach"

// refuseLoss refuses a bundle under which all owners, or the caller, would lose a power, unless force says
// that this is meant.
func (d *Bundles) refuseLoss(ctx context.Context, b *policy.Bundle, who Caller, lost []inforce.Loss, force bool) (err error) {
	if len(lost) == 0 {
		lost, err = inforce.LockedOut(ctx, d.Judging(b), who.Principal, who.Role)
	}
	if err != nil {
		return err
	}
	return refuseLoss(lost, force)
}

// refuseLoss refuses losses, unless force says that they are meant.
func refuseLoss(lost []inforce.Loss, force bool) error {
	if len(lost) == 0 || force {
		return nil
	}
	var texts, remedies []string
	for _, l := range lost {
		texts = append(texts, l.Text)
		if !slices.Contains(remedies, l.Remedy) {
			remedies = append(remedies, l.Remedy)
		}
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonConfig, "policy bundle: %s", strings.Join(texts, "; ")).
		WithRemedy("%s; or do it with --force; the way back is then: %s", strings.Join(remedies, ", and "), WayBack)
}
