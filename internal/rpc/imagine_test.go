package rpc_test

import (
	"net/http"
	"testing"
	"time"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/rpctest"
)

// To ask about a call that was never made is to have it planned, with the daemon's
// eyes: that is for whoever could propose it, and nobody who can only look.
func TestOnlyWhoMayProposeImagines(t *testing.T) {
	w := newWorld(t, nil)
	m := find(t, "ExplainCall")
	imagined := &v1.ExplainCallRequest{Tool: "palyra.fs.write", Workspace: "/home/ada", Arguments: `{"path":"a","content":""}`}
	signed := func(k key) http.Header { return intent(k.intent(t, m, imagined, rpctest.StateID, time.Now())) }
	for name, want := range map[palyra.Role]palyra.Reason{
		palyra.RoleViewer: palyra.ReasonPermission, palyra.RoleApprover: palyra.ReasonPermission, palyra.RoleAuditor: palyra.ReasonPermission,
		palyra.RoleOperator: "", palyra.RoleAdmin: "", palyra.RoleOwner: "",
	} {
		if got := w.send("operator", m, imagined, signed(w.person(string(name), name))); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		d := w.pair("d"+string(name), name)
		if got, err := w.sendTo(d.http, d.base, m, imagined, nil); err != nil || got != want {
			t.Errorf("a device of the role %s: %q %v, want %q", name, got, err, want)
		}
	}
	if got := w.send("operator", m, imagined, nil); got != "" {
		t.Errorf("the daemon's own user: %q", got)
	}
	_, token := w.apiToken("user:alice", 0, time.Hour, allViews...)
	if got := w.send("operator", m, imagined, bearer(token)); got != palyra.ReasonPermission {
		t.Errorf("an owner's token, which only looks: %q", got)
	}
	// A token that was not made for calls does not see them this way either.
	_, narrow := w.apiToken("user:alice", 0, time.Hour, "policy.read")
	if got := w.send("operator", m, &v1.ExplainCallRequest{CallId: "C1"}, bearer(narrow)); got != palyra.ReasonScopeDenied {
		t.Errorf("a token of policy.read: %q", got)
	}
	if got := w.send("operator", m, &v1.ExplainCallRequest{CallId: "C1"}, bearer(token)); got != "" {
		t.Errorf("a token that may look at calls: %q", got)
	}
	cookie := cookieHead(w.cookie(w.owner, "user:alice", palyra.RoleOwner))
	if got, err := w.sendTo(w.browser(), "http://"+w.console, m, imagined, cookie); err != nil || got != palyra.ReasonPermission {
		t.Errorf("a browser: %q %v", got, err)
	}
}
