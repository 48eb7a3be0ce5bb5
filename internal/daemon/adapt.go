package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/audit"
	"palyra/internal/catalog"
	"palyra/internal/enrol"
	"palyra/internal/explain"
	"palyra/internal/journal"
	"palyra/internal/keyring"
	"palyra/internal/observe"
	"palyra/internal/provider"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
	"palyra/internal/run"
)

// Adapters, each named for the part it adapts to the doors' words.

type catalogPart struct{ *catalog.Catalog }

func (p catalogPart) Tools(context.Context) ([]palyra.Tool, error) { return p.List(), nil }

func (p catalogPart) Tool(_ context.Context, name palyra.ToolName) (palyra.Tool, error) {
	return p.Get(name)
}

type callsPart struct {
	*run.Calls
	journal *journal.Journal
	observe *observe.Mode
}

// Observe refuses while calls are held.
func (p callsPart) Observe(ctx context.Context, c palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
	if err := p.observe.Permit(); err != nil {
		return palyra.Outcome{}, err
	}
	return p.Calls.Observe(ctx, c, w)
}

// Held holds the record of a call against its lines.
func (p callsPart) Held(ctx context.Context, id palyra.CallID) error {
	return heldCall(p.journal)(ctx, id)
}

// heldCall holds records of calls against the lines of a journal.
func heldCall(j *journal.Journal) func(context.Context, palyra.CallID) error {
	return func(ctx context.Context, id palyra.CallID) error {
		f, err := j.AuditCall(ctx, id, audit.Of(id))
		if err != nil || f == nil {
			return err
		}
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "the record of the call was changed: %s", f.Why).
			WithRemedy("run 'palyra journal verify', and keep the state as evidence")
	}
}

// deskPart adds the checks to the desk that need other parts: policy's word on who may decide, and the
// export's key.
type deskPart struct {
	*approval.Desk
	d *Daemon
}

func (p deskPart) Decide(ctx context.Context, v palyra.Vote) (palyra.Approval, error) {
	who := rpc.CallerOf(ctx)
	a, err := p.Desk.Get(ctx, v.Approval)
	if err != nil {
		return palyra.Approval{}, err
	}
	if err := p.pairs(a, v, who); err != nil {
		return palyra.Approval{}, err
	}
	if who.Device.ID != "" && a.Principal == who.Device.Agent().Principal { // who asks lives where the key lies: nothing separates them
		v.Separation, v.Device = palyra.SeparationNone, false
	}
	if ok, hits := p.d.policy.AuthorizeAction(ctx, v.By, []palyra.Role{p.d.access.Lesser(who.Role, who.Cap)}, "approval.decide", "Approval",
		string(v.Approval)); !ok {
		e := palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "policy does not let %s decide approvals", v.By)
		for _, h := range hits {
			e = e.WithRemedy("%s", h.Remedy)
		}
		return palyra.Approval{}, e
	}
	return p.Desk.Decide(ctx, v)
}

// pairs refuses an answer about a pairing by somebody who may not manage devices, and by the device that
// showed the code: a stolen device could pair itself once more.
func (p deskPart) pairs(a palyra.Approval, v palyra.Vote, who rpc.Caller) error {
	if a.SubjectType != palyra.SubjectPairing {
		return nil
	}
	const manage = palyra.PermitDevicesManage
	if !p.d.access.Permits(who.Role, manage, who.Signed) || !p.d.access.Permits(who.Cap, manage, who.Signed) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "%s needs the permission %s to pair a device", v.By, manage).
			WithRemedy("have an owner or admin answer")
	}
	if who.Operator.Device != "" && p.d.devices.OfferedWith(who.Operator.KeyID) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonRequesterDecides,
			"the device that showed the code may not answer for the machine that used it").
			WithRemedy("answer on the daemon's own machine, or on another device")
	}
	return nil
}

func (p deskPart) Watch(ctx context.Context, f func(palyra.Approval) error) error {
	return p.Desk.Watch(ctx, palyra.ApprovalFilter{}, func(c approval.Change) error {
		switch c.Kind {
		case approval.ChangeOpen, approval.ChangeUpdated:
			return f(c.Approval)
		case approval.ChangeLagged: // the stream cannot report the changes that were missed, so it ends
			return palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "the watcher fell behind").WithRemedy("watch again")
		}
		return nil
	})
}

func (p deskPart) Export(ctx context.Context, w io.Writer, format string, f palyra.ApprovalFilter, by palyra.Principal) error {
	if f != (palyra.ApprovalFilter{}) {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "an export holds every approval; it takes no filter").
			WithRemedy("filter the exported lines, or use 'palyra approvals list'")
	}
	key := p.d.ring.Signer(keyring.Attestation)
	if err := key.Ready(); err != nil { // before the first line
		return err
	}
	_, err := p.Desk.Export(ctx, w, approval.Format(format), by, key)
	return err
}

type journalPart struct{ *journal.Journal }

func (p journalPart) Head(ctx context.Context) (wire.Head, error) {
	h, err := p.Journal.Head(ctx)
	return wire.Head{Size: h.Size, Root: h.Root, Chain: h.Chain, Origin: h.Origin, Note: h.Note}, err
}

func (p journalPart) Proof(ctx context.Context, seq int64) (json.RawMessage, error) {
	proof, err := p.Journal.Proof(ctx, seq)
	if err != nil {
		return nil, err
	}
	return json.Marshal(proof)
}

func (p journalPart) Export(ctx context.Context, w io.Writer, from, to int64, by palyra.Principal) error {
	h, err := p.Journal.Head(ctx)
	if err != nil {
		return err
	}
	to = cmp.Or(to, h.Size)
	from = cmp.Or(from, 1)
	if _, err := p.Record(ctx, palyra.JournalExported{By: by, From: from, To: to}); err != nil {
		return err // what leaves is on record first
	}
	_, err = p.Journal.Export(ctx, w, from, to)
	return err
}

func (p journalPart) Verify(ctx context.Context, progress func(done, total int64)) (wire.Report, error) {
	r, err := p.Journal.Verify(ctx, progress, func(now time.Time) journal.Auditor { return audit.New(now) })
	report := wire.Report{OK: err == nil && r.Problem == nil, Entries: r.Size, Root: r.Root, Notes: r.Notes}
	if r.Key != "" {
		report.KeyIDs = []string{r.Key}
	}
	if r.Problem != nil { // a damaged log is a report, not a failure to look
		report.Problems = []string{r.Problem.String()}
		return report, nil
	}
	return report, err
}

// statusPart says what the daemon is.
type statusPart struct {
	d               *Daemon
	agent, operator string
	stop            func(by palyra.Principal)
}

func (p statusPart) Status(ctx context.Context) (wire.Status, error) {
	d, paths := p.d, p.d.Settings.Paths
	head, err := d.journal.Head(ctx)
	if err != nil {
		return wire.Status{}, err
	}
	snap, err := d.policy.Snapshot().Digest()
	if err != nil {
		return wire.Status{}, err
	}
	pending, err := d.desk.CountPending(ctx)
	if err != nil {
		return wire.Status{}, err
	}
	level, err := enrol.Weakest(ctx, d.access)
	if err != nil {
		return wire.Status{}, err
	}
	console, remote := p.addresses()
	return wire.Status{
		Version: d.Version, StateID: d.stateID, Instance: d.instance, PID: int64(os.Getpid()), UID: int64(os.Geteuid()),
		StartedAt: d.started.UTC(), Home: paths.Home, KeysDir: paths.Keys, AgentSocket: p.agent, OperatorSocket: p.operator,
		JournalSize: head.Size, JournalOK: true, JournalKey: d.ring.Signer(keyring.Journal).Verifier(),
		Bundle: d.policy.Bundle().Digest(), Snapshot: snap, Preset: d.bundles.Name(), Separation: level,
		Pending: pending, Running: int64(d.path.calls.Running()),
		Features: d.push.Feature(d.path.tierA.Feature(d.shelved.Texts(ctx, d.prunableDirs()))),
		Problems: slices.Concat(d.diskProblem(), d.path.tiers.Problems(ctx), d.observe.Problems(), d.trouble.List(),
			provider.Plain(d.Settings), d.undo.Problems(), d.keys().Problems(ctx)),
		Limited: d.limits.Counters(), Console: console,
		Remote: remote,
	}, nil
}

// addresses are where browsers and devices come in; empty before the doors open.
func (p statusPart) addresses() (console, remote string) {
	s := p.d.server.Load()
	if s == nil {
		return "", ""
	}
	return s.ConsoleAddress(), s.RemoteAddress()
}

func (p statusPart) Shutdown(_ context.Context, by palyra.Principal) error {
	p.d.Log.Info("asked to stop", "by", by)
	p.stop(by)
	return nil
}

// policyPart explains and shows.
type policyPart struct {
	*explain.Explainer
	d *Daemon
}

func (p policyPart) Policy(context.Context) (wire.Policy, error) {
	b := p.d.policy.Bundle()
	snap, err := p.d.policy.Snapshot().Digest()
	if err != nil {
		return wire.Policy{}, err
	}
	out := wire.Policy{Bundle: b.Digest(), Snapshot: snap, Preset: p.d.bundles.Name()}
	for name, text := range b.Files() {
		out.Files = append(out.Files, wire.PolicyFile{Name: name, Digest: palyra.SumBytes([]byte(text)), Text: text})
	}
	slices.SortFunc(out.Files, func(a, b wire.PolicyFile) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (p policyPart) Snapshot(ctx context.Context, digest palyra.Digest) (palyra.Digest, palyra.Snapshot, error) {
	if digest == "" {
		snap := p.d.policy.Snapshot()
		digest, err := snap.Digest()
		return digest, snap, err
	}
	snap, err := p.d.bundles.Snapshot(ctx, digest)
	return digest, snap, err
}
