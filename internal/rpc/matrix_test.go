package rpc_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/wire"
)

func TestEveryMethodSaysWhoMayCallIt(t *testing.T) {
	all := (*access.Registry)(nil).Holds(palyra.RoleOwner)
	for _, m := range methods(t) {
		switch {
		case m.access == nil:
			t.Errorf("%s has no access option", m.FullName())
			continue
		case !slices.Contains(all, palyra.Permission(m.access.GetPermission())):
			t.Errorf("%s asks for %q, which no role holds", m.FullName(), m.access.GetPermission())
		case len(m.access.GetDoors()) == 0 || slices.Contains(m.access.GetDoors(), v1.DoorKind_DOOR_KIND_UNSPECIFIED):
			t.Errorf("%s is open to %v", m.FullName(), m.access.GetDoors())
		case m.IsStreamingClient() && m.access.GetSigned():
			t.Errorf("%s streams from the client, which one signature could not cover", m.FullName())
		case m.IsStreamingClient() && m.Input().Fields().ByName("intent") == nil:
			t.Errorf("%s streams from the client, and its messages cannot be signed", m.FullName())
		}
		// What is not merely looking must be signed by people.
		var r *access.Registry
		looks := r.Permits(palyra.RoleOwner, palyra.Permission(m.access.GetPermission()), false)
		if people(m) && !looks && !m.access.GetSigned() {
			t.Errorf("%s changes something and is not signed", m.FullName())
		}
	}
}

func people(m method) bool {
	return slices.Contains(m.access.GetDoors(), v1.DoorKind_DOOR_KIND_OPERATOR)
}

func agents(m method) bool { return slices.Contains(m.access.GetDoors(), v1.DoorKind_DOOR_KIND_AGENT) }

// What the matrix expects, written from the design and not from the code.
var (
	agentMay  = []string{"status.view", "tools.list", "runs.start", "runs.view", "runs.cancel"}
	viewerMay = []string{"status.view", "approvals.view", "runs.view", "tools.list", "grants.view", "policy.read"}
)

const let palyra.Reason = ""

func asAgent(m method) palyra.Reason {
	switch {
	case agents(m) && slices.Contains(agentMay, m.access.GetPermission()):
		return let
	case m.access.GetPermission() == "approvals.decide":
		return palyra.ReasonAgentMayNotDecide
	}
	return palyra.ReasonPermission
}

func asPerson(m method) palyra.Reason {
	switch {
	case !people(m), forPages(m):
		return palyra.ReasonPermission
	case m.access.GetSigned():
		return palyra.ReasonSignatureRequired
	}
	return let
}

func asOwner(m method) palyra.Reason {
	if !people(m) || forPages(m) || forBrowsers(m) {
		return palyra.ReasonPermission
	}
	return let
}

func asViewer(m method) palyra.Reason {
	if people(m) && !forPages(m) && !forBrowsers(m) && slices.Contains(viewerMay, m.access.GetPermission()) {
		return let
	}
	return palyra.ReasonPermission
}

func always(r palyra.Reason) func(method) palyra.Reason {
	return func(method) palyra.Reason { return r }
}

// credential is a row of the matrix: what comes with a request, and what should
// become of it at each door.
type credential struct {
	name            string
	head            func(b *bench, m method, msg proto.Message) http.Header
	agent, operator func(method) palyra.Reason
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// forPages reports whether a method is for pages of the console.
func forPages(m method) bool { return m.Name() == "JoinBrowser" || m.Name() == "BeginPasskey" }

// forBrowsers reports whether a method is for paired browsers, by their own signature.
func forBrowsers(m method) bool {
	return m.Name() == "SubscribeNotices" || m.Name() == "UnsubscribeNotices"
}

func intent(h string) http.Header { return http.Header{wire.IntentHeader: {h}} }

func credentials() []credential {
	own := rpctest.StateID
	signed := func(k func(*bench) key, audience string, skew time.Duration) func(*bench, method, proto.Message) http.Header {
		return func(b *bench, m method, msg proto.Message) http.Header {
			return intent(k(b).intent(b.t, m, msg, audience, time.Now().Add(skew)))
		}
	}
	owner := func(b *bench) key { return b.owner }
	return []credential{
		{"none", func(*bench, method, proto.Message) http.Header { return nil }, asAgent, asPerson},
		{"agent token", func(b *bench, _ method, _ proto.Message) http.Header { return bearer(b.token) }, asAgent, asAgent},
		{
			"unknown token", func(*bench, method, proto.Message) http.Header { return bearer("plyr_nonsense") },
			always(palyra.ReasonBadCredential), always(palyra.ReasonBadCredential),
		},
		{
			"removed agent", func(b *bench, _ method, _ proto.Message) http.Header { return bearer(b.removed) },
			always(palyra.ReasonBadCredential), always(palyra.ReasonBadCredential),
		},
		{
			"basic auth", func(*bench, method, proto.Message) http.Header { return http.Header{"Authorization": {"Basic eDp5"}} },
			always(palyra.ReasonBadCredential), always(palyra.ReasonBadCredential),
		},
		{"two tokens", func(b *bench, _ method, _ proto.Message) http.Header {
			return http.Header{"Authorization": {"Bearer " + b.token, "Bearer " + b.token}}
		}, always(palyra.ReasonBadCredential), always(palyra.ReasonBadCredential)},
		{"owner's signature", signed(owner, own, 0), asAgent, asOwner},
		{"viewer's signature", signed(func(b *bench) key { return b.viewer }, own, 0), asAgent, asViewer},
		{"stranger's key", signed(func(*bench) key { return newKey() }, own, 0), asAgent, always(palyra.ReasonUnknownKey)},
		{
			"known id, other key", signed(func(b *bench) key { return key{id: b.owner.id, private: newKey().private} }, own, 0), asAgent,
			always(palyra.ReasonBadSignature),
		},
		{"stale", signed(owner, own, -palyra.IntentWindow-time.Minute), asAgent, always(palyra.ReasonStaleSignature)},
		{"from the future", signed(owner, own, palyra.IntentWindow+time.Minute), asAgent, always(palyra.ReasonStaleSignature)},
		{"other daemon's", signed(owner, "01OTHER", 0), asAgent, always(palyra.ReasonBadSignature)},
		{"other method's", func(b *bench, m method, msg proto.Message) http.Header {
			other := methods(b.t)[0]
			if other.FullName() == m.FullName() {
				other = methods(b.t)[1]
			}
			return intent(b.owner.intent(b.t, other, msg, own, time.Now()))
		}, asAgent, always(palyra.ReasonBadSignature)},
		{
			"malformed", func(*bench, method, proto.Message) http.Header { return intent(`{"nonce":"x"}`) }, always(palyra.ReasonBadSignature),
			always(palyra.ReasonBadSignature),
		},
		{"token and signature", func(b *bench, m method, msg proto.Message) http.Header {
			h := bearer(b.token)
			h.Set(wire.IntentHeader, b.owner.intent(b.t, m, msg, own, time.Now()))
			return h
		}, asAgent, asAgent},
	}
}

// Every method, at every door, with every credential: refused with the one
// reason that the protocol and the design give, or let in.
func TestMatrix(t *testing.T) {
	b := newBench(t, rpc.New)
	b.parts.Entries = []palyra.Entry{{Seq: 1, Kind: "daemon.started"}}
	cells := 0
	for _, m := range methods(t) {
		for _, c := range credentials() {
			for door, want := range map[string]func(method) palyra.Reason{"agent": c.agent, "operator": c.operator} {
				msg := m.request(t)
				b.parts.Seen()
				got := b.send(door, m, msg, c.head(b, m, msg))
				cells++
				if got != want(m) && !(want(m) == let && beyondTheDoor(got)) {
					t.Errorf("%s at the %s door with %s: %q, want %q", m.Name(), door, c.name, got, want(m))
				}
				if seen := b.parts.Seen(); want(m) != let && len(seen) > 0 {
					t.Errorf("%s at the %s door with %s reached %v", m.Name(), door, c.name, seen)
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

// beyondTheDoor are refusals of the real registry, which lies behind the doors:
// the matrix removes nobody in particular.
func beyondTheDoor(r palyra.Reason) bool {
	return r == palyra.ReasonNotFound || r == palyra.ReasonLastOwner || r == palyra.ReasonDeviceRequired
}

func find(t testing.TB, name protoreflect.Name) method {
	t.Helper()
	for _, m := range methods(t) {
		if m.Name() == name {
			return m
		}
	}
	t.Fatalf("no method %s", name)
	return method{}
}

func TestReplayAndAlteration(t *testing.T) {
	b := newBench(t, rpc.New)
	for _, name := range []protoreflect.Name{"DecideApproval", "AddWorkspace", "ExportJournal", "RotateKey"} {
		m := find(t, name)
		msg := m.request(t)
		head := intent(b.owner.intent(t, m, msg, rpctest.StateID, time.Now()))
		if got := b.send("operator", m, msg, head); got != let {
			t.Errorf("%s: %s", name, got)
		}
		if got := b.send("operator", m, msg, head); got != palyra.ReasonReplayedSignature {
			t.Errorf("%s again: %q", name, got)
		}
	}
	m := find(t, "DecideApproval")
	for field, change := range map[string]func(*v1.DecideApprovalRequest){
		"answer":   func(r *v1.DecideApprovalRequest) { r.Answer = "deny" },
		"approval": func(r *v1.DecideApprovalRequest) { r.ApprovalId = "A2" },
		"digest":   func(r *v1.DecideApprovalRequest) { r.PlanDigest = "sha256:01" },
		"scope":    func(r *v1.DecideApprovalRequest) { r.Scope = "session" },
		"ttl":      func(r *v1.DecideApprovalRequest) { r.TtlMs = 1 },
		"uses":     func(r *v1.DecideApprovalRequest) { r.Uses = 9 },
		"reason":   func(r *v1.DecideApprovalRequest) { r.Reason = "x" },
		"method":   func(r *v1.DecideApprovalRequest) { r.Method = "tui" },
		"widen":    func(r *v1.DecideApprovalRequest) { r.Widen = "path_root" },
	} {
		msg, ok := m.request(t).(*v1.DecideApprovalRequest)
		if !ok {
			t.Fatal("not a decision")
		}
		head := intent(b.owner.intent(t, m, msg, rpctest.StateID, time.Now()))
		change(msg)
		if got := b.send("operator", m, msg, head); got != palyra.ReasonBadSignature {
			t.Errorf("%s altered: %q", field, got)
		}
	}
}

// A field that this build does not know could change what is asked for and is
// covered by no signature.
func TestUnknownFieldsAreRefused(t *testing.T) {
	b := newBench(t, rpc.New)
	m := find(t, "DecideApproval")
	msg := m.request(t)
	head := intent(b.owner.intent(t, m, msg, rpctest.StateID, time.Now()))
	msg.ProtoReflect().SetUnknown(protoreflect.RawFields{0xfa, 0x7f, 1, 'y'})
	if got := b.send("operator", m, msg, head); got != palyra.ReasonMalformedInput {
		t.Errorf("%q", got)
	}
	if seen := b.parts.Seen(); len(seen) > 0 {
		t.Errorf("reached %v", seen)
	}
}

func TestEvidenceReachesTheHandler(t *testing.T) {
	b := newBench(t, rpc.New)
	var vote palyra.Vote
	b.parts.OnDecide = func(v palyra.Vote) (palyra.Approval, error) {
		vote = v
		return rpctest.Question, nil
	}
	m := find(t, "DecideApproval")
	msg := m.request(t)
	if got := b.send("operator", m, msg, intent(b.owner.intent(t, m, msg, rpctest.StateID, time.Now()))); got != let {
		t.Fatal(got)
	}
	s := vote.Signature
	if vote.By != "user:alice" || s.PublicKey != b.owner.public || s.Intent.PlanDigest != "sha256:00" ||
		s.Intent.Audience != rpctest.StateID ||
		s.Fields["answer"] != "allow" || s.Fields["approval_id"] != "A1" || len(s.Fields) != 3 {
		t.Errorf("%+v", vote)
	}
	if vote.Separation != palyra.SeparationNone || vote.Digest != "sha256:00" || vote.Method != palyra.MethodAPI || vote.At.IsZero() {
		t.Errorf("%+v", vote)
	}
	if w := b.parts.Who(); !w.Signed || w.Role != palyra.RoleOwner || w.Operator.KeyID != b.owner.id {
		t.Errorf("%+v", w)
	}
}

func TestAlerts(t *testing.T) {
	b := newBench(t, rpc.New)
	m := find(t, "DecideApproval")
	one := func(door string, head http.Header) palyra.AlertRaised {
		t.Helper()
		b.send(door, m, m.request(t), head)
		got := b.journal.alerts()
		if len(got) != 1 {
			t.Fatalf("%d alerts: %+v", len(got), got)
		}
		return got[0]
	}
	a := one("agent", nil)
	if a.Reason != palyra.ReasonAgentMayNotDecide || a.Principal != "agent:local" || a.Approval != "A1" ||
		a.Method != "palyra.v1.ApprovalsService/DecideApproval" || a.Count != 1 {
		t.Errorf("%+v", a)
	}
	if a := one("operator", bearer(b.token)); a.Reason != palyra.ReasonAgentMayNotDecide || a.Principal != "agent:ci" {
		t.Errorf("%+v", a)
	}
	stranger := newKey()
	a = one("operator", intent(stranger.intent(t, m, m.request(t), rpctest.StateID, time.Now())))
	if a.Reason != palyra.ReasonUnknownKey || a.KeyID != stranger.id {
		t.Errorf("%+v", a)
	}
	if a := one("operator", bearer("plyr_x")); a.Reason != palyra.ReasonBadCredential {
		t.Errorf("%+v", a)
	}
	// Merely asking for too much is refused and raises nothing.
	b.send("agent", find(t, "ListApprovals"), m.request(t), nil)
	b.send("operator", m, m.request(t), nil)
	if got := b.journal.alerts(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	// A flood is one line now and one with the count later.
	for range 20 {
		b.send("agent", m, m.request(t), bearer(b.token))
	}
	if got := b.journal.alerts(); len(got) > 2 {
		t.Errorf("a flood made %d lines", len(got))
	}
}
