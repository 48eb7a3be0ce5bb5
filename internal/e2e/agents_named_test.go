//go:build agents

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/client"
	"palyra/internal/agent/agenttest"
	"palyra/internal/cli/wholeagent"
)

// named runs an agent by its name in the sandbox, led to the test's model and with the words given.
func (s *stage) named(name, model string, words ...string) func(ctx context.Context) ([]byte, error) {
	s.inside = true
	return func(ctx context.Context) ([]byte, error) {
		cmd := s.palyra(append([]string{"agent", "run", "--no-stdin", "-w", s.work, "--model-url", model, name}, words...)...)
		cmd.Dir, cmd.Env = s.work, append(cmd.Environ(), "PATH="+filepath.Join(s.dir, "node_modules", ".bin")+":"+os.Getenv("PATH"))
		return cmd.CombinedOutput()
	}
}

// quiet makes sure that nothing but the starts was asked about: no host of the agent's own traffic, except one that the
// table says it asks about.
func (s *stage) quiet(starts int, known ...string) {
	s.t.Helper()
	page, err := s.client(client.OperatorDoor).Approvals(s.t.Context(), client.ApprovalFilter{})
	for _, a := range page.Approvals {
		switch {
		case a.Plan.AgentSocket:
			starts--
		case !slices.ContainsFunc(known, func(host string) bool { return strings.Contains(string(a.Plan.Arguments), host) }):
			s.t.Errorf("it was asked about %s %s", a.Plan.Tool, a.Plan.Arguments)
		}
	}
	if err != nil || starts != 0 {
		s.t.Errorf("%d starts too few were asked about (%v)", starts, err)
	}
}

// claudeNamed: `palyra agent run claude-code`, its own tools.
func claudeNamed(t *testing.T, b *table) {
	s, m, env := claude(t, b, claudes)
	s.play(m, s.insideScenes(claudes), s.named("claude-code", valueOf(env, "ANTHROPIC_BASE_URL"), "-p", "go"))
	s.quiet(4)
}

// codexNamed: `palyra agent run codex exec`.
func codexNamed(t *testing.T, b *table) {
	s, m, _ := codex(t, b, codexes, "gpt-5.5")
	raw, err := os.ReadFile(filepath.Join(s.home, ".codex", "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), `base_url = "`)
	url, _, _ := strings.Cut(after, `"`)
	s.play(m, s.insideScenes(codexes), s.named("codex", url, "exec", "--skip-git-repo-check", "-m", "gpt-5.5", "go"))
	s.quiet(4)
}

// opencodeNamed: `palyra agent run opencode run`.
func opencodeNamed(t *testing.T, b *table) {
	s := newAgentStage(t, b, opencodes)
	m := plainModel(t, s)
	s.play(m, s.insideScenes(opencodes), s.named("opencode", agenttest.NewFunc(t, m.answer).URL+"/v1", "run", "go"))
	s.quiet(4, "registry.npmjs.org")
}

// geminiNamed: `palyra agent run gemini -p`.
func geminiNamed(t *testing.T, b *table) {
	s := newAgentStage(t, b, geminis)
	m := plainModel(t, s)
	s.play(m, s.insideScenes(geminis), s.named("gemini", agenttest.NewFunc(t, m.answer).URL, "-m", "gemini-2.5-flash", "-p", "go"))
	s.quiet(4)
}

// insideScenes are what an agent does in there that nobody is asked about.
func (s *stage) insideScenes(with tools) []scene {
	all := scenes(s.work, with)
	for i := range all {
		all[i].answer = ""
	}
	made := scenes(s.work, with)[2].want
	if with == opencodes || with == geminis { // which put words of their own around
		made = `(?s).*small\.txt.*`
		all[0].want, all[2].want = `(?s).*hello world.*`, made
	}
	return append(pick(all, "read", "program"), scene{
		name: "program, nobody is asked", step: toRun(with, "touch made && echo small.txt"), want: made, makes: "made",
	}, scene{
		name: "what is not there", step: toRun(with, "cat "+s.daemon.home+"/config.toml; ls -a "+s.home+" || echo none"),
		want: `(?s)(.*No such file.*none.*|none.*No such file.*)`,
	})
}

func valueOf(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// TestAgentsNamedVersions: the table of names was read from the versions that are installed here.
func TestAgentsNamedVersions(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(os.Getenv("PALYRA_AGENTS"), ".installed"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range wholeagent.Names() {
		s, err := wholeagent.Find(name)
		if err != nil || !strings.Contains(string(list), "@"+s.Version) {
			t.Errorf("%s %s is not among %s (%v)", name, s.Version, list, err)
		}
	}
}
