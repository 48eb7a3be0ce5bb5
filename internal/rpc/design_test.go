package rpc_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// What follows is written from the design and not from the code: what each role
// may, and what each credential can and cannot do at each door.

var approverMay = append(slices.Clone(viewerMay), "approvals.decide", "grants.revoke")

// may reports whether a role of people holds a permission.
func may(role, permission string) bool {
	switch role {
	case "owner":
		return true
	case "admin":
		return permission != "vault.reveal" && permission != "keys.manage"
	case "operator":
		return slices.Contains(approverMay, permission) || slices.Contains([]string{
			"journal.read", "vault.list", "vault.use", "runs.start", "runs.cancel", "workspaces.manage", "sandbox.manage", "skills.manage",
			"mcp.manage", "cron.manage", "channels.manage", "daemon.stop",
		}, permission)
	case "approver":
		return slices.Contains(approverMay, permission)
	case "auditor":
		return slices.Contains(viewerMay, permission) ||
			slices.Contains([]string{"journal.read", "journal.export", "approvals.export"}, permission)
	case "viewer":
		return slices.Contains(viewerMay, permission)
	}
	return false
}

// person is what becomes of a person's request. Changes are signed; looking is not.
func person(m method, role string, signed bool) palyra.Reason {
	p := m.access.GetPermission()
	switch {
	case !people(m):
		return palyra.ReasonPermission
	case m.access.GetSigned() && !signed:
		return palyra.ReasonSignatureRequired
	case !may(role, p) || !signed && !slices.Contains(allViews, palyra.Permission(p)):
		return palyra.ReasonPermission
	}
	return let
}

// then is the first refusal.
func then(all ...palyra.Reason) palyra.Reason {
	for _, r := range all {
		if r != let {
			return r
		}
	}
	return let
}

func when(bad bool, r palyra.Reason) palyra.Reason {
	if bad {
		return r
	}
	return let
}

// noDevice: certificates are renewed by the device that has them, as its person; a browser joins from its page.
func noDevice(m method) palyra.Reason {
	return then(when(m.Name() == "RenewDevice", palyra.ReasonDeviceRequired), noPage(m))
}

func noPage(m method) palyra.Reason {
	return when(forPages(m) || forBrowsers(m), palyra.ReasonPermission)
}

// noDecision: a passkey signs answers and nothing else.
func noDecision(m method) palyra.Reason {
	return when(m.access.GetPermission() != "approvals.decide", palyra.ReasonPermission)
}

// noLink: a link for a browser is a person's to make, with a key or a device.
func noLink(m method) palyra.Reason { return when(m.Name() == "OpenConsole", palyra.ReasonPermission) }

// byToken: a token gives what it was made for and nothing else, at every door that
// takes tokens; a signature next to it changes nothing.
func byToken(m method, name string) palyra.Reason {
	narrow := when(strings.HasSuffix(name, ", status.view") && m.access.GetPermission() != "status.view", palyra.ReasonScopeDenied)
	switch {
	case strings.HasPrefix(name, "unknown"), strings.HasPrefix(name, "expired"), strings.HasPrefix(name, "revoked"),
		strings.HasPrefix(name, "removed"):
		return palyra.ReasonBadCredential
	case strings.HasPrefix(name, "agent"):
		return then(asAgent(m), narrow)
	case strings.HasPrefix(name, "node"):
		return then(person(m, "node", false))
	}
	role, _, _ := strings.Cut(name, " ")
	return then(person(m, role, false), narrow, noDevice(m), noLink(m))
}

func isToken(name string) bool {
	return strings.Contains(name, " token") || name == "node"
}

// atSocket: the agent socket makes everybody an agent; on the operator socket the
// signature says who it is.
func atSocket(m method, door, name string) palyra.Reason {
	by, signed := strings.CutPrefix(name, "signed by ")
	reach := when(!slices.Contains([]string{"status.view", "tools.list", "policy.read", "approvals.view", "approvals.decide"},
		m.access.GetPermission()), palyra.ReasonScopeDenied)
	switch {
	case door == "agent":
		return asAgent(m)
	case !signed:
		return then(person(m, "owner", false), noDevice(m))
	case by == "stranger", by == "removed person":
		return palyra.ReasonUnknownKey
	case by == "device", by == "browser", by == "passkey": // its key counts on its own connection only
		return palyra.ReasonBadCredential
	case by == "revoked device":
		return palyra.ReasonDeviceRevoked
	case by == "operator, now viewer": // both the key's role and the person's must hold it
		return then(person(m, "viewer", true), noDevice(m))
	case by == "owner of one workspace":
		return then(person(m, "owner", true), reach, noDevice(m))
	}
	return then(person(m, by, true), noDevice(m))
}

// atRemote: a device is its person up to its own role, signs with its own key
// only, and gives all that up as an agent.
func atRemote(m method, name string) palyra.Reason {
	role, isRole := strings.CutPrefix(name, "device of role ")
	role, signed := strings.CutSuffix(role, ", signed")
	switch {
	case isRole:
		return then(person(m, role, signed), noPage(m))
	case strings.HasPrefix(name, "device's agent"):
		return asAgent(m)
	case strings.HasPrefix(name, "revoked device"):
		return "no_connection"
	case strings.HasSuffix(name, "door"), strings.HasSuffix(name, "doors"):
		return palyra.ReasonMalformedInput
	}
	return palyra.ReasonBadCredential // signed by a key that is not the device's
}

// atConsole: a browser looks and does nothing else, and brings nothing but its
// one cookie.
func atConsole(m method, name string) palyra.Reason {
	role, good := strings.CutPrefix(name, "cookie of ")
	switch {
	case m.IsStreamingClient():
		return "http_505" // needs HTTP/2, which the console does not speak
	case isToken(name), strings.HasPrefix(name, "cookie and "):
		return palyra.ReasonBadCredential
	case forBrowsers(m) && (name == "browser, signed" || name == "signed by a browser, no cookie"):
		return let
	case name == "browser, signed", name == "signed by a browser, no cookie": // whose session may be over
		return then(person(m, "approver", true), noDevice(m))
	case strings.HasPrefix(name, "cookie alone"), name == "cookie, another page's secret": // as it goes to other ports
		return palyra.ReasonBadCredential
	case name == "passkey, signed":
		return then(noDecision(m), person(m, "approver", true))
	case name == "signed by a passkey, no cookie":
		return then(noDecision(m), palyra.ReasonNoCredential)
	case name == "revoked browser, signed":
		return palyra.ReasonDeviceRevoked
	case name == "cookie, another door":
		role = "owner"
	case name == "signature": // an operator's key is no browser's
		return palyra.ReasonBadCredential
	case !good:
		return palyra.ReasonNoCredential
	}
	return then(person(m, role, false), when(m.Name() == "RenewDevice", palyra.ReasonDeviceRequired), noLink(m))
}

func byDesign(m method, column string) palyra.Reason {
	door, name, _ := strings.Cut(column, "/")
	switch {
	case strings.HasSuffix(name, beside), door == "room", strings.HasPrefix(name, "person's command"):
		return amongNeighbours(m, door, name)
	case door == "console":
		return atConsole(m, name)
	case isToken(name):
		return byToken(m, name)
	case door == "remote":
		return atRemote(m, name)
	}
	return atSocket(m, door, name)
}

// TestMatrixHoldsTheDesign holds the file against the rules above: no method and
// no cell without one.
func TestMatrixHoldsTheDesign(t *testing.T) {
	raw, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	got := readTable(t, raw)
	cells := 0
	for _, m := range methods(t) {
		row := got[m.procedure()[1:]]
		if len(row) < 100 {
			t.Errorf("%s has %d columns", m.FullName(), len(row))
		}
		for _, col := range sortedKeys(row) {
			cells++
			if want := byDesign(m, col); row[col] != want {
				t.Errorf("%s, %s: %q, by the design %q", m.Name(), col, row[col], want)
			}
		}
		delete(got, m.procedure()[1:])
	}
	for name := range got {
		t.Errorf("%s is listed and is no method", name)
	}
	t.Logf("%d cells", cells)
}

// Whatever the method: what is not a live credential opens nothing at all, and
// nothing is decided but by a signature on a door of people.
func TestNothingOpensWithoutACredential(t *testing.T) {
	raw, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	dead := []string{"unknown", "expired", "revoked", "removed", "stranger", "two cookies", "console/none"}
	for name, row := range readTable(t, raw) {
		for col, why := range row {
			agent := strings.HasPrefix(col, "agent/signed") // there a signature changes nothing
			if why == let && !agent && slices.ContainsFunc(dead, func(s string) bool { return strings.Contains(col, s) }) {
				t.Errorf("%s lets %s in", name, col)
			}
			if why == let && strings.HasSuffix(name, "/DecideApproval") && !strings.Contains(col, "signed") {
				t.Errorf("%s decides", col)
			}
		}
	}
}
