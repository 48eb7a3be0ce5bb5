package approval

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/store"
)

func TestAllowLeavesALease(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	a := w.ask(c)
	w.pass(time.Minute)
	got := w.decide(a, palyra.AnswerAllow, changed(func(v *palyra.Vote) { v.Reason = "fine"; v.At = epoch.Add(-time.Hour) }))
	d := got.Decision
	if d.Answer != palyra.AnswerAllow || d.Scope != palyra.ScopeOnce || d.By != "user:alice" || d.Method != palyra.MethodCLI ||
		d.Reason != "fine" ||
		d.Digest != a.PlanDigest || d.Approval != a.ID || d.Lease == "" || d.Reused || !d.At.Equal(epoch.Add(time.Minute)) {
		t.Errorf("decision %+v", d)
	}
	if len(d.Votes) != 1 || d.Votes[0].Signature.Sig != "c2ln" || d.Votes[0].ID == "" || !d.Votes[0].At.Equal(d.At) {
		t.Errorf("votes %+v", d.Votes)
	}
	if diff := cmp.Diff(w.get(a.ID), got); diff != "" {
		t.Errorf("returned and stored differ: %s", diff)
	}
	l, err := w.desk.Lease(t.Context(), d.Lease)
	if err != nil {
		t.Fatal(err)
	}
	want := palyra.Lease{
		ID: d.Lease, Approval: a.ID, Scope: palyra.ScopeOnce, By: "user:alice", CreatedAt: d.At, ExpiresAt: d.At.Add(15 * time.Minute),
		UsesLeft: 1, Decision: d, Terms: palyra.Terms{
			Principal: "agent:local", Session: session1, Tool: "palyra.fs.write", PlanDigest: c.Digest, Workspace: "/w",
			TierFloor: palyra.TierBuiltin,
		},
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"approval.requested", "approval.decided", "grant.created"}, w.kinds()); diff != "" {
		t.Error(diff)
	}
	line := w.lines("approval.decided")[0].body
	if line["lease_id"] != string(d.Lease) || line["by"] != "user:alice" || line["plan_digest"] != string(c.Digest) ||
		line["votes"].([]any)[0].(map[string]any)["signature"].(map[string]any)["sig"] != "c2ln" {
		t.Errorf("journal line %v", line)
	}
	if f := w.lines("grant.created")[0].body; f["uses"] != 1.0 || f["scope"] != "once" {
		t.Errorf("journal line %v", f)
	}
}

func TestScopesOfLeases(t *testing.T) {
	w := newWorld(t)
	for i, test := range []struct {
		options []voteOption
		uses    int64
		ends    time.Duration
		root    string
	}{
		{[]voteOption{scoped(palyra.ScopeOnce)}, 1, 15 * time.Minute, ""},
		{[]voteOption{scoped(palyra.ScopeOnce), uses(1), widened("exact")}, 1, 15 * time.Minute, ""},
		{[]voteOption{scoped(palyra.ScopeSession)}, -1, 0, ""},
		{[]voteOption{scoped(palyra.ScopeSession), uses(7), widened("path_root")}, 7, 0, "src"},
		{[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(time.Second)}, -1, time.Second, ""},
		{[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(24 * time.Hour), widened("path_root")}, -1, 24 * time.Hour, "src"},
	} {
		c := call(t, "src/"+string(rune('a'+i)))
		l, err := w.desk.Lease(t.Context(), w.decide(w.ask(c), palyra.AnswerAllow, test.options...).Decision.Lease)
		if err != nil {
			t.Fatal(err)
		}
		var ends time.Duration
		if !l.ExpiresAt.IsZero() {
			ends = l.ExpiresAt.Sub(l.CreatedAt)
		}
		exact := l.Terms.PlanDigest == c.Digest
		if l.UsesLeft != test.uses || ends != test.ends || l.Terms.PathRoot != test.root || exact != (test.root == "") ||
			l.Terms.Session != session1 {
			t.Errorf("%d: lease %+v, ends in %s", i, l, ends)
		}
	}
}

func TestVotesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	fresh := w.ask(call(t, "src/fresh.txt", withNeed(palyra.Need{Votes: 1, Fresh: true})))
	strict := w.ask(call(t, "src/strict.txt", withNeed(palyra.Need{Votes: 1, Separation: palyra.SeparationDevice})))
	device := w.ask(call(t, "src/device.txt", withNeed(palyra.Need{Votes: 1, Device: true})))
	unknown := w.ask(call(t, "src/unknown.txt", withNeed(palyra.Need{Votes: 1, Separation: "quantum"})))
	users := w.ask(call(t, "src/user.txt", by("user:carol")))
	other := palyra.SumBytes([]byte("another plan"))
	set := func(f func(*palyra.Vote)) []voteOption { return []voteOption{f} }
	for _, test := range []struct {
		name    string
		a       palyra.Approval
		answer  palyra.Answer
		options []voteOption
		code    palyra.Code
		reason  palyra.Reason
	}{
		{"agent", a, palyra.AnswerDeny, []voteOption{from("agent:local")}, palyra.Denied, palyra.ReasonAgentMayNotDecide},
		{"another agent", a, palyra.AnswerAllow, []voteOption{from("agent:x")}, palyra.Denied, palyra.ReasonAgentMayNotDecide},
		{"system", a, palyra.AnswerAllow, []voteOption{from("system:clock")}, palyra.Denied, palyra.ReasonPermission},
		{"device without a person", a, palyra.AnswerAllow, []voteOption{from("device:phone")}, palyra.Denied, palyra.ReasonPermission},
		{"nobody", a, palyra.AnswerAllow, []voteOption{from("")}, palyra.Denied, palyra.ReasonPermission},
		{"no name", a, palyra.AnswerAllow, []voteOption{from("user:")}, palyra.Denied, palyra.ReasonPermission},
		{"requester", users, palyra.AnswerAllow, []voteOption{from("user:carol")}, palyra.Denied, palyra.ReasonRequesterDecides},
		{
			"no signature", a, palyra.AnswerAllow, set(func(v *palyra.Vote) { v.Signature.Sig = "" }), palyra.Denied,
			palyra.ReasonSignatureRequired,
		},
		{
			"no public key", a, palyra.AnswerDeny, set(func(v *palyra.Vote) { v.Signature.PublicKey = "" }), palyra.Denied,
			palyra.ReasonSignatureRequired,
		},
		{
			"huge signature", a, palyra.AnswerAllow, set(func(v *palyra.Vote) { v.Signature.Sig = strings.Repeat("x", maxSignature) }),
			palyra.Invalid, palyra.ReasonInputTooLarge,
		},
		{
			"unkeepable signature", a, palyra.AnswerAllow, set(func(v *palyra.Vote) { v.Signature.Fields = map[string]any{"f": func() {}} }),
			palyra.Invalid, palyra.ReasonInputTooLarge,
		},
		{"other digest", a, palyra.AnswerAllow, []voteOption{echoing(other)}, palyra.Conflict, palyra.ReasonStaleDigest},
		{"no digest", a, palyra.AnswerDeny, []voteOption{echoing("")}, palyra.Conflict, palyra.ReasonStaleDigest},
		{"digest of another question", a, palyra.AnswerAllow, []voteOption{echoing(fresh.PlanDigest)}, palyra.Conflict, palyra.ReasonStaleDigest},
		{
			"other digest signed", a, palyra.AnswerAllow, set(func(v *palyra.Vote) { v.Signature.Intent.PlanDigest = other }), palyra.Conflict,
			palyra.ReasonStaleDigest,
		},
		{"no answer", a, "", nil, palyra.Invalid, palyra.ReasonMalformedInput},
		{"timeout", a, palyra.AnswerTimeout, nil, palyra.Invalid, palyra.ReasonMalformedInput},
		{"error", a, palyra.AnswerError, nil, palyra.Invalid, palyra.ReasonMalformedInput},
		{"no method", a, palyra.AnswerAllow, set(func(v *palyra.Vote) { v.Method = "" }), palyra.Invalid, palyra.ReasonMalformedInput},
		{
			"method of the clock", a, palyra.AnswerAllow, set(func(v *palyra.Vote) { v.Method = palyra.MethodClock }), palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{"unknown separation", a, palyra.AnswerAllow, []voteOption{level("best")}, palyra.Invalid, palyra.ReasonMalformedInput},
		{
			"long reason", a, palyra.AnswerDeny, set(func(v *palyra.Vote) { v.Reason = strings.Repeat("x", maxReason+1) }), palyra.Invalid,
			palyra.ReasonInputTooLarge,
		},
		{"reason not text", a, palyra.AnswerDeny, set(func(v *palyra.Vote) { v.Reason = "\xff" }), palyra.Invalid, palyra.ReasonMalformedInput},
		{"no scope", a, palyra.AnswerAllow, []voteOption{scoped("")}, palyra.Invalid, palyra.ReasonMalformedInput},
		{"unknown scope", a, palyra.AnswerAllow, []voteOption{scoped("forever")}, palyra.Invalid, palyra.ReasonMalformedInput},
		{
			"timeboxed without time", a, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeTimeboxed)},
			palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{
			"too short", a, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(999 * time.Millisecond)},
			palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{
			"too long", a, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(24*time.Hour + time.Millisecond)},
			palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{
			"time overflow", a, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeTimeboxed), func(v *palyra.Vote) { v.TTLMS = 1 << 62 }},
			palyra.Invalid, palyra.ReasonMalformedInput,
		},
		{
			"negative time", a, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(-time.Hour)},
			palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{"once with time", a, palyra.AnswerAllow, []voteOption{ttl(time.Minute)}, palyra.Invalid, palyra.ReasonMalformedInput},
		{
			"session with time", a, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeSession), ttl(time.Minute)},
			palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{
			"negative uses", a, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeSession), uses(-1)},
			palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{"once more than once", a, palyra.AnswerAllow, []voteOption{uses(2)}, palyra.Invalid, palyra.ReasonMalformedInput},
		{"once widened", a, palyra.AnswerAllow, []voteOption{widened("path_root")}, palyra.Invalid, palyra.ReasonMalformedInput},
		{
			"unknown widening", a, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeSession), widened("all")},
			palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{"deny with scope", a, palyra.AnswerDeny, []voteOption{scoped(palyra.ScopeSession)}, palyra.Invalid, palyra.ReasonMalformedInput},
		{"deny with time", a, palyra.AnswerDeny, []voteOption{ttl(time.Minute)}, palyra.Invalid, palyra.ReasonMalformedInput},
		{"fresh, session", fresh, palyra.AnswerAllow, []voteOption{scoped(palyra.ScopeSession)}, palyra.Invalid, palyra.ReasonMalformedInput},
		{
			"fresh, timeboxed", fresh, palyra.AnswerAllow,
			[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(time.Minute)},
			palyra.Invalid,
			palyra.ReasonMalformedInput,
		},
		{"weak key", strict, palyra.AnswerAllow, []voteOption{level(palyra.SeparationPassphrase)}, palyra.Denied, palyra.ReasonPermission},
		{"no device", device, palyra.AnswerAllow, nil, palyra.Denied, palyra.ReasonPermission},
		{
			"a level nobody knows", unknown, palyra.AnswerAllow,
			[]voteOption{level(palyra.SeparationOtherUID)},
			palyra.Denied,
			palyra.ReasonPermission,
		},
		{
			"no such approval",
			palyra.Approval{ID: palyra.ApprovalID(newID()), PlanDigest: a.PlanDigest},
			palyra.AnswerAllow, nil,
			palyra.NotFound, palyra.ReasonNotFound,
		},
		{"no id", palyra.Approval{PlanDigest: a.PlanDigest}, palyra.AnswerAllow, nil, palyra.NotFound, palyra.ReasonNotFound},
	} {
		_, err := w.desk.Decide(t.Context(), vote(test.a, test.answer, test.options...))
		if err == nil {
			t.Errorf("%s: accepted", test.name)
			continue
		}
		if palyra.CodeOf(err) != test.code || palyra.AsError(err).Reason != test.reason {
			t.Errorf("%s: %v (%s), want %s/%s", test.name, err, describe(err), test.code, test.reason)
		}
	}
	for _, q := range []palyra.Approval{a, fresh, strict, device, unknown, users} {
		if got := w.get(q.ID); !got.Pending() || len(got.Votes) != 0 {
			t.Errorf("%s was touched: %+v", q.SubjectID, got)
		}
	}
	// An approver may deny with any key, and with what a form sends by default.
	w.decide(strict, palyra.AnswerDeny, scoped(palyra.ScopeOnce))
	w.decide(device, palyra.AnswerDeny)
}

func TestAttemptsThatShouldNotHappenRaiseAnAlert(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	for _, v := range []palyra.Vote{
		vote(a, palyra.AnswerAllow, from("agent:local")),
		vote(a, palyra.AnswerAllow, echoing(palyra.SumBytes(nil))),
	} {
		if _, err := w.desk.Decide(t.Context(), v); err == nil {
			t.Fatal("accepted")
		}
	}
	alerts := w.lines("alert.raised")
	if len(alerts) != 2 || alerts[0].body["reason_code"] != "agent_may_not_decide" || alerts[0].body["principal"] != "agent:local" ||
		alerts[1].body["reason_code"] != "stale_digest" || alerts[1].body["approval_id"] != string(a.ID) || alerts[1].body["key_id"] != "k1" {
		t.Errorf("alerts %v", alerts)
	}
	w.journal.fail = func(palyra.Event) error { return context.DeadlineExceeded }
	_, err := w.desk.Decide(t.Context(), vote(a, palyra.AnswerAllow, from("agent:local")))
	wantErr(t, err, palyra.Denied, palyra.ReasonAgentMayNotDecide) // refused all the same
}

func TestTheStoredPlanMustBeTheOneAskedAbout(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	err := w.db.Write(t.Context(), "tamper", func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE approval_documents SET plan = REPLACE(plan, 'src/a.txt', 'src/b.txt')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.desk.Decide(t.Context(), vote(a, palyra.AnswerAllow))
	wantErr(t, err, palyra.Internal, palyra.ReasonInternal)
}

func TestALaterAnswerGetsTheFirst(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	w.decide(a, palyra.AnswerDeny)
	got, err := w.desk.Decide(t.Context(), vote(a, palyra.AnswerAllow, from("user:bob")))
	wantErr(t, err, palyra.Conflict, palyra.ReasonAlreadyDecided)
	if got.ID != a.ID || got.Decision.Answer != palyra.AnswerDeny || !strings.Contains(err.Error(), "deny by user:alice") {
		t.Errorf("%v, %+v", err, got.Decision)
	}
}

func TestNeedsAreMet(t *testing.T) {
	type step struct {
		who     palyra.Principal
		options []voteOption
		settled bool
	}
	device := changed(func(v *palyra.Vote) { v.Device = true })
	for name, test := range map[string]struct {
		need  palyra.Need
		steps []step
		sep   palyra.Separation
	}{
		"one":            {palyra.Need{Votes: 1}, []step{{"user:alice", nil, true}}, "none"},
		"zero means one": {palyra.Need{}, []step{{"user:alice", nil, true}}, "none"},
		"two people":     {palyra.Need{Votes: 2}, []step{{"user:alice", nil, false}, {"user:bob", nil, true}}, "none"},
		"another person": {palyra.Need{Votes: 1, OtherPerson: true}, []step{{"user:alice", nil, false}, {"user:bob", nil, true}}, "none"},
		"device":         {palyra.Need{Votes: 1, Device: true}, []step{{"user:alice", []voteOption{device}, true}}, "none"},
		"the lowest separation": {palyra.Need{Votes: 2, Separation: palyra.SeparationPassphrase}, []step{
			{"user:alice", []voteOption{level(palyra.SeparationOtherUID)}, false},
			{"user:bob", []voteOption{level(palyra.SeparationPassphrase)}, true},
		}, "passphrase"},
	} {
		w := newWorld(t)
		c := call(t, "src/a.txt", withNeed(test.need))
		a := w.ask(c)
		var got palyra.Approval
		for _, s := range test.steps {
			got = w.decide(a, palyra.AnswerAllow, append(s.options, from(s.who))...)
			if got.Pending() == s.settled {
				t.Errorf("%s: after %s settled is %v", name, s.who, !got.Pending())
			}
		}
		if len(got.Decision.Votes) != len(test.steps) || got.Decision.Separation != test.sep {
			t.Errorf("%s: %+v", name, got.Decision)
		}
		if voted := len(w.lines("approval.voted")); voted != len(test.steps)-1 {
			t.Errorf("%s: %d voted lines", name, voted)
		}
		if f := w.desk.Facts(c.Proposal.Owner, got.Decision); !needMet(c.Verdict.Need, f) || !f.Fresh || f.Votes != len(test.steps) {
			t.Errorf("%s: facts %+v do not meet the need they settled", name, f)
		}
	}
}

func TestOnePersonOneVote(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt", withNeed(palyra.Need{Votes: 2})))
	w.decide(a, palyra.AnswerAllow)
	for _, answer := range []palyra.Answer{palyra.AnswerAllow, palyra.AnswerDeny} {
		got, err := w.desk.Decide(t.Context(), vote(a, answer))
		wantErr(t, err, palyra.Conflict, palyra.ReasonAlreadyDecided)
		if !got.Pending() || len(got.Votes) != 1 {
			t.Errorf("%+v", got)
		}
	}
	if got := w.decide(a, palyra.AnswerDeny, from("user:bob")); got.Decision.Answer != palyra.AnswerDeny || len(got.Decision.Votes) != 2 {
		t.Errorf("the first deny did not settle: %+v", got.Decision)
	}
}

func TestSeveralVotersGetWhatAllAgreedTo(t *testing.T) {
	w := newWorld(t)
	for i, test := range []struct {
		one, two []voteOption
		want     extent
	}{
		{[]voteOption{scoped(palyra.ScopeSession)}, []voteOption{scoped(palyra.ScopeOnce)}, extent{palyra.ScopeOnce, 0, 1, "exact"}},
		{
			[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(time.Hour)},
			[]voteOption{scoped(palyra.ScopeSession), uses(3)},
			extent{palyra.ScopeTimeboxed, time.Hour, 3, "exact"},
		},
		{
			[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(time.Hour), uses(9), widened("path_root")},
			[]voteOption{scoped(palyra.ScopeTimeboxed), ttl(time.Minute), uses(2), widened("path_root")},
			extent{palyra.ScopeTimeboxed, time.Minute, 2, "path_root"},
		},
		{
			[]voteOption{scoped(palyra.ScopeSession), widened("path_root")},
			[]voteOption{scoped(palyra.ScopeSession), widened("exact")},
			extent{palyra.ScopeSession, 0, -1, "exact"},
		},
	} {
		a := w.ask(call(t, "src/"+string(rune('a'+i)), withNeed(palyra.Need{Votes: 2})))
		w.decide(a, palyra.AnswerAllow, test.one...)
		d := w.decide(a, palyra.AnswerAllow, append(test.two, from("user:bob"))...).Decision
		l, err := w.desk.Lease(t.Context(), d.Lease)
		if err != nil {
			t.Fatal(err)
		}
		widen := "exact"
		if l.Terms.PathRoot != "" {
			widen = "path_root"
		}
		if l.Scope != test.want.scope || d.Scope != test.want.scope || l.UsesLeft != test.want.uses || widen != test.want.widen ||
			test.want.ttl > 0 && l.ExpiresAt.Sub(l.CreatedAt) != test.want.ttl {
			t.Errorf("%d: %+v, want %+v", i, l, test.want)
		}
	}
}

func TestADecisionAfterTheDeadlineSettlesAsTimeout(t *testing.T) {
	for name, late := range map[string]func(*world){
		"both clocks":    func(w *world) { w.pass(5 * time.Minute) },
		"wall forward":   func(w *world) { w.jump(5*time.Minute, 0) },
		"wall set back":  func(w *world) { w.jump(-time.Hour, 5*time.Minute) },
		"after a reboot": func(w *world) { w.reboot("boot-2", 5*time.Minute) },
	} {
		w := newWorld(t)
		a := w.ask(call(t, "src/a.txt"))
		late(w)
		got, err := w.desk.Decide(t.Context(), vote(a, palyra.AnswerAllow))
		wantErr(t, err, palyra.Conflict, palyra.ReasonApprovalExpired)
		d := w.get(a.ID).Decision
		if d.Answer != palyra.AnswerTimeout || d.By != "system:clock" || d.Method != palyra.MethodClock || d.Lease != "" ||
			got.Decision.Answer != palyra.AnswerTimeout {
			t.Errorf("%s: %+v", name, d)
		}
		if diff := cmp.Diff([]string{"approval.requested", "approval.decided"}, w.kinds()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A thousand people answer at once, half each way: one wins, the rest are told
// who, and there is one lease or none.
func TestRacingDeciders(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	var (
		won, conflicts atomic.Int64
		wg             sync.WaitGroup
	)
	for i := range 1000 {
		wg.Go(func() {
			answer := palyra.AnswerAllow
			if i%2 == 0 {
				answer = palyra.AnswerDeny
			}
			who := palyra.Principal("user:" + string(newID()))
			got, err := w.desk.Decide(context.Background(), vote(a, answer, from(who)))
			switch {
			case err == nil && got.Decision.By == who:
				won.Add(1)
			case palyra.CodeOf(err) == palyra.Conflict && !got.Pending() && got.Decision.By != who:
				conflicts.Add(1)
			default:
				t.Errorf("%s: %v %+v", who, err, got.Decision)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || conflicts.Load() != 999 {
		t.Errorf("%d winners, %d conflicts", won.Load(), conflicts.Load())
	}
	page, err := w.desk.Leases(t.Context(), palyra.LeaseFilter{Ended: true})
	leases := page.Leases
	if want := map[palyra.Answer]int{palyra.AnswerAllow: 1}[w.get(a.ID).Decision.Answer]; err != nil || len(leases) != want {
		t.Errorf("%d leases, want %d, %v", len(leases), want, err)
	}
	if got := w.get(a.ID); len(got.Votes) != 1 || len(w.lines("approval.decided")) != 1 {
		t.Errorf("%d votes, %d lines", len(got.Votes), len(w.lines("approval.decided")))
	}
}
