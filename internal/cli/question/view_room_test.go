package question

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/questiontest"
)

// roomApproval is a question about a script in a furnished room.
func roomApproval() palyra.Approval {
	a := questiontest.ProcessApproval()
	script := "set -e\nnpm ci\n\tnpm test # all of it\n"
	raw := json.RawMessage(`{"profile":"node","script":"set -e\nnpm ci\n\tnpm test # all of it\n"}`)
	a.Prompt.Title, a.Prompt.Summary = "Run a script", "run script \"set -e\\nnpm ci\""
	p := &a.Plan
	p.Arguments, p.Argv = raw, []string{"/bin/sh", "-c", script}
	p.Executable, p.Inputs, p.Stdin = palyra.Executable{Path: "/usr/bin/dash", Digest: questiontest.SampleDigest}, nil, ""
	p.Tier, p.Profile, p.Asks, p.UnixSockets = palyra.TierC, "node", true, true
	p.Mounts = []palyra.Mount{
		{Source: "/home/ann/.nvm", Target: "/home/ann/.nvm"},
		{Source: "/var/lib/palyra/caches/x/npm", Target: "/home/agent/.cache/npm", Writable: true},
	}
	p.Files = []palyra.RoomFile{{Target: "/home/agent/.gitconfig", Text: "[user]\n\tname = Ann\n"}}
	p.Seals = []string{".envrc", ".git/config", ".git/hooks", "odd name"}
	p.Egress = []string{"*.packages.example:443", "npm.packages.example:443"}
	p.Enforcement.Mechanisms = []string{"bubblewrap", "net_namespace", "sealed_paths"}
	p.Enforcement.Limits = map[string]palyra.Hold{"memory": "cgroup", "processes": "cgroup", "wall": "timer"}
	return questiontest.Bound(a)
}

// Everything that a room is made of stands on the screen.
func TestNothingOfARoomIsLeftOut(t *testing.T) {
	got := render(roomApproval(), palyra.SeparationNone, 0, false)
	for _, want := range []string{
		"Script         36 bytes:\n             │ set -e\n             │ npm ci\n", "# all of it",
		"\"*.packages.example:443\" (every name that ends so)", "npm.packages.example:443\n",
		"/home/ann/.nvm at /home/ann/.nvm (read only)", "/var/lib/palyra/caches/x/npm at /home/agent/.cache/npm (writable)",
		"/home/agent/.gitconfig (read only), 19 bytes:", "name = Ann",
		"Sealed         .envrc, .git/config, .git/hooks, \"odd name\"\n", "Sockets        unix sockets",
		"tier C: native, full OS sandbox, profile node", "an answer is for this run only",
		"the hosts above, and others only by an answer of their own",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A script is shown only where it is what runs.
func TestScriptOf(t *testing.T) {
	for _, c := range []struct {
		args string
		argv []string
		want bool
	}{
		{`{"script":"echo"}`, []string{"/bin/sh", "-c", "echo"}, true},
		{`{"script":"-x"}`, []string{"/bin/sh", "-c", "\n-x"}, true},
		{`{"script":"echo"}`, []string{"/bin/sh", "-c", "rm"}, false},
		{`{"script":"echo"}`, []string{"/bin/sh", "-x", "echo"}, false},
		{`{"script":"echo"}`, []string{"echo"}, false},
		{`{"command":"sh"}`, []string{"sh", "-c", "echo"}, false},
		{`{"script":7}`, []string{"/bin/sh", "-c", "7"}, false},
		{`[`, []string{"/bin/sh", "-c", ""}, false},
	} {
		if _, ok := scriptOf(palyra.Plan{Arguments: json.RawMessage(c.args), Argv: c.argv}); ok != c.want {
			t.Errorf("%s %q: %v", c.args, c.argv, ok)
		}
	}
}

func TestARoomThatHoldsLittle(t *testing.T) {
	a := roomApproval()
	a.Plan.Seals, a.Plan.Enforcement.Mode = nil, "none"
	got := render(questiontest.Bound(a), "", 0, false)
	for _, want := range []string{"Sealed         nothing", "any public host"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	a = questiontest.ProcessApproval() // tier B has no seals to miss
	if got := render(a, "", 0, false); strings.Contains(got, "Sealed ") {
		t.Error(got)
	}
}

// Text of the room that does not show itself honestly is warned of.
func TestRoomTextIsChecked(t *testing.T) {
	for name, change := range map[string]func(*palyra.Plan){
		"mount": func(p *palyra.Plan) { p.Mounts[0].Source = "/x\u202ey" }, "file": func(p *palyra.Plan) { p.Files[0].Text = "a\u202eb" },
		"seal":    func(p *palyra.Plan) { p.Seals[0] = "a\u202eb" },
		"profile": func(p *palyra.Plan) { p.Profile = "a\u202eb" },
	} {
		a := roomApproval()
		change(&a.Plan)
		if got := render(questiontest.Bound(a), "", 0, false); !strings.Contains(got, "WARNING: there are") {
			t.Errorf("%s: no warning", name)
		}
	}
}
