package question

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/cli/questiontest"
)

// longApproval is a question of tier C with everything that makes it long.
func longApproval() palyra.Approval {
	a := roomApproval()
	p := &a.Plan
	p.Arguments, p.Argv = json.RawMessage(`{"command":"make","env":{"CI":"1"}}`), []string{"make", "all"}
	p.Asks, p.UnixSockets, p.Egress, p.Seals, p.Mounts = false, false, nil, nil, nil
	for i := range 120 {
		p.Seals = append(p.Seals, fmt.Sprintf("seal-%d", i))
	}
	for i := range 12 {
		p.Mounts = append(p.Mounts, palyra.Mount{
			Source: fmt.Sprintf("/caches/%d", i), Target: fmt.Sprintf("/home/agent/.cache/%d", i),
			Writable: true,
		})
		p.Env = append(p.Env, palyra.EnvVar{Name: fmt.Sprintf("OF_THE_PROFILE_%d", i), Value: "x"})
		p.Inputs = append(p.Inputs, palyra.Input{Path: fmt.Sprintf("input-%d", i), Digest: questiontest.SampleDigest})
		p.Enforcement.Mechanisms = append(p.Enforcement.Mechanisms, fmt.Sprintf("mechanism-%d", i))
	}
	return questiontest.Bound(a)
}

// Who is asked sees one screen of what matters, and how much more there is.
func TestTheShortViewIsShort(t *testing.T) {
	a := longApproval()
	got := renderShort(a, 80)
	if n := strings.Count(got, "\n"); n > mostLines {
		t.Errorf("%d lines:\n%s", n, got)
	}
	plain := a
	plain.Plan.Argv, plain.Plan.Inputs, plain.Plan.Workspace.Known = []string{"sed", "-i", "s/a/b/", "a.txt"}, nil, true
	if n := strings.Count(renderShort(questiontest.Bound(plain), 120), "\n"); n > mostLines {
		t.Errorf("an ordinary question has %d lines:\n%s", n, renderShort(questiontest.Bound(plain), 120))
	}
	flat := strings.NewReplacer("\n             ┆ ", "").Replace(got)
	for _, want := range []string{
		"Command        make all\n", "CI=1\n", "Not shown ", "see palyra approvals show " + string(a.ID) + " --full\n",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	left := "13 variables, 4 input files, 12 writable caches, 1 generated file, 120 sealed names, 15 mechanisms"
	if wide := renderShort(a, 0); !strings.Contains(wide, left) {
		t.Errorf("what is not shown is not named:\n%s", wide)
	}
	for _, not := range []string{"seal-7", "/caches/7", "mechanism-7"} {
		if strings.Contains(got, not) {
			t.Errorf("%q in\n%s", not, got)
		}
	}
	full := render(a, palyra.SeparationNone, 80, false)
	for _, want := range []string{
		"seal-7", "/caches/7", "mechanism-7", "input-11", string(a.PlanDigest), "OF_THE_PROFILE_11=x",
		"name = Ann",
	} {
		if !strings.Contains(full, want) {
			t.Errorf("no %q in the full view", want)
		}
	}
}

// A small write by the agent's own tools is asked about in twelve lines, and what must be
// seen stands there once.
func TestAHooksWriteIsShort(t *testing.T) {
	a := questiontest.WriteApproval()
	a.Plan = a.Plan.Unsandboxed()
	a.Surface, a.Plan.Workspace.Known = palyra.SurfaceHook, true
	a.Prompt.Explanation, a.Policies = usualHead+": "+usualReason, nil
	a.Prompt.Title = "agent:local wants to use palyra.fs.write, by its own tools and outside any sandbox"
	a.Prompt.Summary = "create a.txt, 1 byte (+1 -0 lines)"
	a.Prompt.Notes = []string{palyra.UnsandboxedNote, "creates a.txt with mode 0644"}
	a.Prompt.Risk.Factors = append(a.Prompt.Risk.Factors, "no_sandbox: the agent runs it itself")
	a.Prompt.Options = append(a.Prompt.Options, palyra.Widening{Name: palyra.WidenWorkspace, Label: "any edit of files in /home/ann/shop"})
	a = questiontest.Bound(a)
	got := renderShort(a, 80)
	if n := strings.Count(got, "\n"); n > mostLines {
		t.Errorf("%d lines:\n%s", n, got)
	}
	for want, times := range map[string]int{
		"NO SANDBOX": 1, "SANDBOXED": 0, "no_sandbox": 0, "a.txt": 1, "+x": 1, "allow-edits: ": 1,
		"MEDIUM": 1,
	} {
		if n := strings.Count(got, want); n != times {
			t.Errorf("%q stands there %d times, not %d:\n%s", want, n, times, got)
		}
	}
	more := a
	more.Plan.Arguments = []byte(`{"path":"a.txt","content":"x","else":1}`)
	if got := renderShort(questiontest.Bound(more), 80); !strings.Contains(got, `"else":1`) {
		t.Errorf("an argument that the diff does not show is left out:\n%s", got)
	}
}

// A command that speaks of a sealed name is told what becomes of it.
func TestSealedNamesOfACommandAreSaid(t *testing.T) {
	a := longApproval()
	a.Plan.Argv = []string{"sh", "-c", "echo x > .envrc"}
	a.Plan.Seals = append(a.Plan.Seals, ".envrc", "echo-not")
	if got := renderShort(questiontest.Bound(a), 0); !strings.Contains(got, "Sealed         .envrc: stays as it is") ||
		!strings.Contains(got, "quarantine") || strings.Contains(got, "echo-not") {
		t.Error(got)
	}
}

// Nothing that is out of the ordinary is left out.
func TestTheShortViewShowsWhatIsUnusual(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*palyra.Approval)
		want   string
	}{
		"opened seals": {func(a *palyra.Approval) { a.Plan.Asks = true }, "the profile opens what is sealed otherwise"},
		"which seals": {func(a *palyra.Approval) {
			a.Prompt.Notes = []string{"may change what is sealed otherwise: .git/config"}
		}, "may change what is sealed otherwise: .git/config"},
		"who wants a host": {func(a *palyra.Approval) {
			a.Plan.Executable, a.Plan.Argv = palyra.Executable{}, nil
			a.Prompt.Notes = []string{"wanted by a program that runs now (call X): run curl h is not limited"}
		}, "wanted by a program that runs now"},
		"words that end so": {func(a *palyra.Approval) {
			a.Prompt.Notes = []string{"what it does is not limited"}
		}, "what it does is not limited"},
		"no seals":     {func(a *palyra.Approval) { a.Plan.Seals = nil }, "nothing: it may leave hooks"},
		"unix sockets": {func(a *palyra.Approval) { a.Plan.UnixSockets = true }, "unix sockets that it can see"},
		"agent socket": {func(a *palyra.Approval) { a.Plan.AgentSocket = true }, "it is an agent itself"},
		"own mounts": {func(a *palyra.Approval) {
			a.Plan.Mounts = append(a.Plan.Mounts, palyra.Mount{Source: "/srv/x", Target: "/y"})
		}, " mounts, "},
		"wildcards":       {func(a *palyra.Approval) { a.Plan.Egress = []string{"*.example:443"} }, "(every name that ends so)"},
		"private address": {func(a *palyra.Approval) { a.Plan.Egress = []string{"10.0.0.1:443"} }, "10.0.0.1:443 (not a public address)"},
		"private ranges": {
			func(a *palyra.Approval) { a.Plan.Enforcement.Mechanisms = []string{"private_ranges"} },
			"private addresses are open to it",
		},
		"host network":    {func(a *palyra.Approval) { a.Plan.Enforcement.Mechanisms = []string{"host_network"} }, "the machine's own services"},
		"no network wall": {func(a *palyra.Approval) { a.Plan.Enforcement.Mode = "none" }, "NOT enforced: it may reach any public host"},
		"polled": {
			func(a *palyra.Approval) { a.Plan.Enforcement.Limits = map[string]palyra.Hold{"memory": "polled"} },
			"memory: only looked at from time to time",
		},
		"loose": {
			func(a *palyra.Approval) { a.Plan.Enforcement.Limits = map[string]palyra.Hold{"disk": "none"} },
			"NOT enforced: disk",
		},
		"live input": {func(a *palyra.Approval) { a.Plan.Stdin = palyra.StdinLive }, "LIVE"},
		"bound input": {func(a *palyra.Approval) {
			a.Plan.Stdin, a.Plan.Arguments = string(questiontest.SampleDigest), json.RawMessage(`{"command":"sh","stdin":"rm -rf x"}`)
		}, `"stdin":"rm -rf x"`},
		"new arguments": {
			func(a *palyra.Approval) { a.Plan.Arguments = json.RawMessage(`{"command":"make","nobody_knows":1}`) },
			`"nobody_knows":1`,
		},
		"secrets": {func(a *palyra.Approval) {
			a.Plan.Env = []palyra.EnvVar{{Name: "TOKEN", Secret: true, Digest: questiontest.SampleDigest}}
		}, "TOKEN (secret"},
		"bindings":        {func(a *palyra.Approval) { a.Plan.Bindings = []string{"deploy-key"} }, "deploy-key"},
		"sealed copy":     {func(a *palyra.Approval) { a.Plan.Executable.Sealed = true }, "sealed copy"},
		"who must":        {func(a *palyra.Approval) { a.Need = palyra.Need{Votes: 2} }, "2 different people"},
		"a new workspace": {func(a *palyra.Approval) { a.Plan.Workspace.Known = false }, "NEW workspace"},
		"hidden letters":  {func(a *palyra.Approval) { a.Plan.Seals[3] = "a\u202eb" }, "WARNING        there are"},
	} {
		a := longApproval()
		c.change(&a)
		if got := renderShort(questiontest.Bound(a), 0); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", name, c.want, got)
		}
	}
}

// Two commands never look the same, however short the view is.
func TestTheShortViewTellsCommandsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b c", "", `"`, `\`, "\n", "é", "\xff", "-x", "a b"})
		one, two := rapid.SliceOfN(word, 1, 4).Draw(t, "one"), rapid.SliceOfN(word, 1, 4).Draw(t, "two")
		views := []string{}
		for _, argv := range [][]string{one, two} {
			a := longApproval()
			a.Plan.Argv = argv
			a.PlanDigest = questiontest.SampleDigest // or that would tell them apart
			views = append(views, renderShort(a, 0))
		}
		if same := fmt.Sprintf("%q", one) == fmt.Sprintf("%q", two); same != (views[0] == views[1]) {
			t.Fatalf("%q and %q:\n%s", one, two, views[0])
		}
	})
}

func TestPrivateHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"example.org:443": false, "*.example.org:443": false, "192.0.2.1:1": false, "[2001:db8::1]:443": false,
		"10.1.2.3:443": true, "127.0.0.1:80": true, "[::1]:80": true, "169.254.169.254:80": true, "[::ffff:10.0.0.1]:80": true,
		"localhost:80": true, "x.localhost:1": true, "0.0.0.0:1": true,
		"fe80::1": true,
	} {
		if got := private(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}

// A question about a signature says what is signed in words: who wrote it, what it changes, its tree and parents; the raw
// payload, which nobody reads, takes no room from that.
func TestASignatureIsShownInWords(t *testing.T) {
	notes := []string{
		"author and committer A <a@b.c>", "1 file, 1 line added, 0 removed", "added a +1 -0", "tree 2ce1", "no parent: it begins a history",
	}
	a := palyra.Approval{
		ID: "A1", Principal: "agent:local", Plan: palyra.Plan{
			Tool: palyra.ToolSign, Tier: palyra.TierBuiltin, Source: palyra.SourceBuiltin,
			Arguments: []byte(`{"payload":"` + strings.Repeat("dHJl", 200) + `"}`), Bindings: []string{"commits"}, Workspace: palyra.WorkspaceRef{Path: "/w", Known: true},
			Enforcement: palyra.Enforcement{Mechanisms: []string{"binding:commits"}},
		},
		Prompt: palyra.Prompt{Summary: `sign a commit on main: "first"`, Notes: notes, Risk: palyra.Risk{Level: palyra.RiskHigh}},
	}
	for _, width := range []int{80, 200} {
		var b bytes.Buffer
		(&View{W: &b, Approval: a, Short: true, Width: width, Own: "palyra"}).Print()
		said := strings.Join(strings.Fields(strings.ReplaceAll(b.String(), "┆", "")), " ") // without the breaks of lines
		for _, want := range append(notes, "sign a commit on main") {
			if !strings.Contains(said, want) {
				t.Errorf("%d columns: no %q in\n%s", width, want, b.String())
			}
		}
		if strings.Contains(b.String(), "dHJl") || strings.Contains(b.String(), "Network") || strings.Count(b.String(), "\n") > mostLines {
			t.Errorf("%d columns:\n%s", width, b.String())
		}
	}
}
