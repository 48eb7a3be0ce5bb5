package approval

import (
	"testing"

	"palyra"
)

// One answer for the workspace covers every edit in it, at its top and below, by each
// of the tools that edit; and nothing else.
func TestGoOnEditing(t *testing.T) {
	plan := func(file string, f func(*palyra.Plan), more ...func(*palyra.Call)) *palyra.Call {
		c := call(t, file)
		f(&c.Plan)
		for _, m := range more {
			m(c)
		}
		c.Digest, _ = c.Plan.Digest()
		return c
	}
	same := func(*palyra.Plan) {}
	hook := func(p *palyra.Plan) { *p = p.Unsandboxed() }
	notebook := func(p *palyra.Plan) {
		*p = p.Unsandboxed()
		p.Tool, p.Source = "hook.notebookedit", palyra.SourceAgent
	}
	for name, asked := range map[string]func(*palyra.Plan){"ours": same, "the agent's own": hook} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.decide(w.ask(plan("src/a.txt", asked)), palyra.AnswerAllow, scoped(palyra.ScopeSession), widened(palyra.WidenWorkspace))
			for file, covered := range map[string]bool{
				"b.txt": true, "src/a.txt": true, "doc/x/y.md": true, "Makefile": true, ".gitignore": true,
				".envrc": false, "sub/.envrc": false, ".git/config": false, ".github/workflows/x.yml": false, ".unknown/x": false, "mise.toml": false,
				"../x": false, "/etc/passwd": false, ".": false, "a/../../x": false,
			} {
				if _, ok := w.covered(plan(file, asked)); ok != covered {
					t.Errorf("%s: covered %v", file, ok)
				}
			}
			if _, ok := w.covered(plan("n.ipynb", notebook)); ok != (name != "ours") {
				t.Errorf("a notebook: covered %v", ok)
			}
			if _, ok := w.covered(plan("b.txt", func(p *palyra.Plan) { asked(p); p.Tool = "palyra.fs.edit" })); ok != (name == "ours") {
				t.Errorf("another tool: covered %v", ok)
			}
			for what, c := range map[string]*palyra.Call{
				"another session":   plan("b.txt", asked, inSession(session2)),
				"another agent":     plan("b.txt", asked, by("agent:other")),
				"another workspace": plan("b.txt", func(p *palyra.Plan) { asked(p); p.Workspace.Path = "/x" }),
				"a removal":         plan("b.txt", func(p *palyra.Plan) { asked(p); p.Removes = p.Writes }),
				"riskier":           plan("b.txt", asked, func(c *palyra.Call) { c.Verdict.Risk.Level = palyra.RiskCritical }),
				"a fresh answer":    plan("b.txt", asked, withNeed(palyra.Need{Votes: 1, Fresh: true})),
			} {
				if _, ok := w.covered(c); ok {
					t.Errorf("%s: covered", what)
				}
			}
		})
	}
}

// Two people who differ get what both agreed to.
func TestTheNarrowestWidening(t *testing.T) {
	vote := func(widen string) palyra.Vote { return palyra.Vote{Scope: palyra.ScopeSession, Widen: widen} }
	for want, votes := range map[string][]palyra.Vote{
		palyra.WidenWorkspace: {vote(palyra.WidenWorkspace), vote(palyra.WidenWorkspace)},
		palyra.WidenPathRoot:  {vote(palyra.WidenWorkspace), vote(palyra.WidenPathRoot)},
		palyra.WidenExact:     {vote(palyra.WidenWorkspace), vote("")},
	} {
		if got := narrowest(votes).widen; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A directory outside is read by one answer, but for what is hidden or a known place
// of secrets, and never written.
func TestReadADirectoryOutside(t *testing.T) {
	read := func(tool, file string, more ...func(*palyra.Plan)) *palyra.Call {
		c := call(t, "x")
		p := c.Plan.Unsandboxed()
		p.Tool, p.Source, p.Capabilities = palyra.ToolName(tool), palyra.SourceAgent, []palyra.Capability{palyra.FilesystemRead}
		p.Writes, p.Inputs, p.Reads = nil, nil, []string{file}
		for _, m := range more {
			m(&p)
		}
		c.Plan = p
		c.Digest, _ = c.Plan.Digest()
		return c
	}
	w := newWorld(t)
	w.decide(w.ask(read("hook.read", "/opt/lib/a.go")), palyra.AnswerAllow, scoped(palyra.ScopeSession), widened(palyra.WidenReadRoot))
	for _, c := range []*palyra.Call{
		read("hook.read", "/opt/lib/b.go"), read("hook.read", "/opt/lib/x/c.go"), read("hook.ls", "/opt/lib/x"),
		read("hook.ls", "/opt/lib"),
	} {
		if _, ok := w.covered(c); !ok {
			t.Errorf("%s %v: not covered", c.Plan.Tool, c.Plan.Reads)
		}
	}
	for name, c := range map[string]*palyra.Call{
		"beside":        read("hook.read", "/opt/libs/a.go"),
		"above":         read("hook.read", "/opt/a.go"),
		"out":           read("hook.read", "/opt/lib/../a.go"),
		"hidden":        read("hook.read", "/opt/lib/.config"),
		"a secret":      read("hook.read", "/opt/lib/server.key"),
		"looks through": read("hook.grep", "/opt/lib/x"),
		"a write":       read("hook.write", "/opt/lib/a.go", func(p *palyra.Plan) { p.Writes = p.Reads }),
		"unknown":       read("hook.read", "/opt/lib/b.go", func(p *palyra.Plan) { p.Capabilities = append(p.Capabilities, palyra.ProcessExec) }),
		"two":           read("hook.read", "/opt/lib/b.go", func(p *palyra.Plan) { p.Reads = append(p.Reads, "/etc/shadow") }),
	} {
		if _, ok := w.covered(c); ok {
			t.Errorf("%s: covered", name)
		}
	}
	for _, file := range []string{"/a", "/root/.ssh/config", "/proc/1/environ", "/home/u/.aws/config", "relative/a"} {
		if got := offers(read("hook.read", file).Plan, palyra.Need{}); len(got) != 1 {
			t.Errorf("%s: offered %+v", file, got)
		}
	}
}
