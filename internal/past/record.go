package past

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/canon"
	"palyra/internal/journal"
	"palyra/internal/policy"
	"palyra/internal/policy/replay"
	"palyra/internal/run"
)

// Why a call on record cannot be judged again.
const (
	GapRow     = "its row cannot be read"
	GapVerdict = "no verdict is on record"
	GapCut     = "its verdict was too long to be kept"
	GapLarge   = "its arguments were too large to be kept"
	GapMasked  = "values of secrets are masked in it"
	GapPlan    = "the plan on record is not the one that was judged"
	GapProject = "policies of its workspace took part, and those are not kept"
	GapOwn     = "its workspace has policies of its own, which are not of a bundle"
)

// records are a call as it was judged first, and what people answered; then the same of what its run had changed.
func (r *reader) records(row run.Past, lines []journal.Raw, e approval.Ended, d *desk) []replay.Record {
	t, err := d.read(row)
	if err != nil {
		return []replay.Record{{Call: row.ID, Gap: GapRow}}
	}
	call := r.record(row, t, lines, e, d)
	if t.keep == nil || call.Gap != "" {
		return []replay.Record{call}
	}
	return []replay.Record{call, r.keep(call, t.keep)}
}

// keep is the judgement of what the run of a call had changed. Calls that only look are judged so as well, and their
// changes dropped unasked: whoever judges it again finds out.
func (r *reader) keep(call replay.Record, raw []byte) replay.Record {
	var k struct {
		Facts    *palyra.EffectFacts `json:"facts"`
		Verdict  palyra.Verdict      `json:"verdict"`
		Decision palyra.Decision     `json:"decision"`
	}
	if json.Unmarshal(raw, &k) != nil || k.Facts == nil {
		return replay.Record{Call: call.Call, Gap: GapRow}
	}
	out := replay.Record{Call: call.Call, Request: call.Request, Was: k.Verdict}
	out.Request.Effects, out.Request.Approval = k.Facts, nil
	if k.Decision.Answer != palyra.AnswerPending {
		facts := r.Desk.Facts(out.Request.Owner, k.Decision)
		out.Request.Approval, out.Answer, out.Was.Effect = &facts, k.Decision.Answer, palyra.Ask
	}
	return out
}

// record is a call as it was judged first, and what people answered.
func (r *reader) record(
	row run.Past, t *told, lines []journal.Raw, e approval.Ended, d *desk,
) replay.Record {
	gap := replay.Record{Call: row.ID}
	if t.digest == "" {
		gap.Gap = "it was refused before there was a plan"
		if t.refused.Layer != "" {
			gap.Gap += fmt.Sprintf(" (%s)", t.refused.Layer)
		}
		return gap
	}
	first, why := d.firstVerdict(lines)
	if why != "" {
		gap.Gap = why
		return gap
	}
	out, why := r.judged(row, t, first)
	if why != "" {
		gap.Gap = why
		return gap
	}
	out.Observed = row.State == palyra.Observed
	r.answered(&out, row, t, e)
	return out
}

// judged returns what was judged and how, or why that is not on record.
func (r *reader) judged(row run.Past, t *told, first palyra.CallJudged) (out replay.Record, gap string) {
	switch {
	case t.bad != nil:
		return out, GapRow
	case policy.Project(first.Policies, t.verdict.Errors):
		return out, GapProject
	case t.digest != first.Plan:
		return out, GapPlan
	case t.plan.Masked:
		return out, GapMasked
	case t.sum != first.Plan && string(t.plan.Arguments) == "null":
		return out, GapLarge
	case t.sum != first.Plan:
		return out, GapPlan
	case r.ownPolicies(&t.plan):
		return out, GapOwn
	}
	t.who.Labels = first.Labels
	out = replay.Record{Call: row.ID, Was: verdictOf(first, t.verdict), Request: t.who.Request(row.ID, t.tool.Tool, t.plan)}
	out.Request.Standing = standing(first)
	if r.plans.again(t.sum) {
		out.Key = keyOf(t, first)
	}
	return out, ""
}

// maxKey bounds the arguments that are part of a key.
const maxKey = 4 << 10

// keyOf is what a request is made of but for the call's id; empty: it is too much. The digest stands for the plan, but
// for how its arguments are written.
func keyOf(t *told, first palyra.CallJudged) string {
	if len(t.plan.Arguments) > maxKey {
		return ""
	}
	who := &t.who
	return fmt.Sprintf("%s %q %d %q %q %q %q %q %q %q %d %d %q %q %q", t.sum, t.plan.Arguments, t.tool.id, who.Principal, who.Owner,
		who.Session, who.Run, who.Parent, who.Surface, first.Labels, who.CallsUsed, who.CallsMax, first.Roles, first.Owner, first.Device)
}

// standing is the standing of the principal and its owner when the call was judged; nil where it is not on record.
func standing(first palyra.CallJudged) *palyra.Standing {
	if len(first.Roles)+len(first.Owner) == 0 {
		return nil
	}
	return &palyra.Standing{Roles: first.Roles, Owner: first.Owner, Device: first.Device}
}

// answered adds people's answer. The row of a call that did not run has no answer: the question has it.
func (r *reader) answered(out *replay.Record, row run.Past, t *told, e approval.Ended) {
	var d palyra.Decision
	if readIf(t.decision, &d) != nil {
		*out = replay.Record{Call: row.ID, Gap: GapRow}
		return
	}
	if d.Answer != palyra.AnswerPending {
		facts := r.Desk.Facts(out.Request.Owner, d)
		out.Request.Approval, out.Answer = &facts, d.Answer
	} else if e.Answer != palyra.AnswerPending {
		out.Answer = e.Answer
		if e.Answer != palyra.AnswerAllow {
			out.Request.Approval = &palyra.ApprovalFacts{}
		}
	}
	out.Joined = e.Call != "" && e.Call != row.ID
	if t.refused.Layer == palyra.LayerPolicy && out.Was.Effect == palyra.Ask { // the answer was not enough
		out.Answer = palyra.AnswerDeny
	}
}

// ownPolicies reports whether the places where a plan works have, or may have, policies of their own: its
// workspace, and the places below that it names.
func (r *reader) ownPolicies(p *palyra.Plan) bool {
	top := p.Workspace.Path
	if top == "" {
		return false
	}
	if r.own.has(top, func() bool {
		b, err := r.Projects.Of(top)
		return b != nil || err != nil
	}) {
		return true
	}
	if len(p.Reads)+len(p.Writes) == 0 && p.Cwd == top {
		return false
	}
	for _, place := range policy.PlacesOf(*p) {
		for dir := place; len(dir) > len(top); dir = filepath.Dir(dir) {
			if r.own.has(dir, func() bool {
				if !r.Projects.MayHave(dir) {
					return false
				}
				b, err := r.Projects.At(dir)
				return b != nil || err != nil
			}) {
				return true
			}
		}
	}
	return false
}

// maxPlaces bounds the directories that are remembered.
const maxPlaces = 1 << 16

// ownPlaces remembers which directories have policies of their own.
type ownPlaces struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (o *ownPlaces) has(dir string, look func() bool) bool {
	o.mu.RLock()
	own, ok := o.known[dir]
	o.mu.RUnlock()
	if ok {
		return own
	}
	own = look()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= maxPlaces {
		o.known = map[string]bool{}
	}
	o.known[dir] = own
	return own
}

// keptVerdict is the part of a row's verdict that is read.
type keptVerdict struct {
	Need   palyra.Need `json:"need"`
	Errors []string    `json:"errors"`
}

func (v *keptVerdict) read(raw []byte) error {
	if raw == nil {
		return nil
	}
	return readMembers(raw, func(name string) bool { return name == "need" || name == "errors" }, v)
}

func readIf(raw []byte, v any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, v)
}

// firstVerdict finds how a call was judged before anybody answered.
func (d *desk) firstVerdict(lines []journal.Raw) (first palyra.CallJudged, gap string) {
	for _, raw := range lines {
		var body canon.Value
		var err error
		body, d.line, err = raw.Body(&d.doc, d.line)
		if err != nil {
			return first, GapVerdict
		}
		if body.Kind() == canon.Nothing {
			return first, GapCut
		}
		first, again := judgedWords(body)
		if !again {
			return first, ""
		}
	}
	return first, GapVerdict
}

// judgedWords is the body of a call.judged line, and whether it is of a later judgement. A member that is missing or of
// another kind is empty, and an unknown effect denies.
func judgedWords(body canon.Value) (j palyra.CallJudged, again bool) {
	for name, v := range body.Members() {
		text, _ := v.Text()
		switch name {
		case "again":
			again, _ = v.Bool()
		case "effect":
			_ = j.Effect.UnmarshalText([]byte(text))
		case "call_id":
			j.Call = palyra.CallID(text)
		case "plan_digest":
			j.Plan = palyra.Digest(text)
		case "risk":
			j.Risk = palyra.RiskLevel(text)
		case "bundle_digest":
			j.Bundle = palyra.Digest(text)
		case "snapshot_digest":
			j.Snapshot = palyra.Digest(text)
		case "policies":
			j.Policies = texts[string](v)
		case "labels":
			j.Labels = texts[string](v)
		case "device_id":
			j.Device = text
		case "roles":
			j.Roles = texts[palyra.Role](v)
		case "owner_roles":
			j.Owner = texts[palyra.Role](v)
		}
	}
	return j, again
}

// texts is a list in a body.
func texts[T ~string](v canon.Value) (out []T) {
	for one := range v.Items() {
		s, _ := one.Text()
		out = append(out, T(s))
	}
	return out
}

// verdictOf is the first verdict: the journal's line, with the need of an ask, which the row keeps through
// every later judgement.
func verdictOf(j palyra.CallJudged, kept keptVerdict) palyra.Verdict {
	v := palyra.Verdict{Effect: j.Effect, Bundle: j.Bundle, Snapshot: j.Snapshot, Risk: palyra.Risk{Level: j.Risk}}
	for _, id := range j.Policies {
		v.Policies = append(v.Policies, palyra.PolicyHit{ID: id})
	}
	if j.Effect == palyra.Ask {
		v.Need = kept.Need
	}
	return v
}
