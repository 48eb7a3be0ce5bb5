package question

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/questiontest"
)

// paddings are what an agent can fill a question with.
func paddings() map[string]string {
	return map[string]string{
		"short": "x", "long": strings.Repeat("w", 280), "lines": strings.Repeat("a\nb ", 60), "controls": strings.Repeat("\x1b[2K\r", 40),
		"raw": strings.Repeat("\xff\u202e", 60),
	}
}

// grave plants one grave thing of every kind in a question, and an agent's padding around each; it returns what must be seen.
func grave(a palyra.Approval, pad string) (palyra.Approval, []string) {
	p := &a.Plan
	want := []string{newPlace}
	p.Workspace.Known, p.Workspace.Path = false, "/home/ann/"+pad
	p.Egress, p.Guarded = nil, nil
	var factors []string
	if p.Effects == nil {
		for i := range 12 {
			p.Egress = append(p.Egress, fmt.Sprintf("host-%02d.example.org:443", i), fmt.Sprintf("10.0.0.%d:443", i))
			factors = append(factors, fmt.Sprintf("egress: host-%02d.example.org:443", i))
		}
		p.Egress = append(p.Egress, "*.evil.example:443", "192.0.2.7:443", "169.254.169.254:80")
		want = append(want, "*.evil.example:443", "192.0.2.7:443", "169.254.169.254:80")
	}
	if len(p.Argv) == 0 && p.Effects == nil { // a program's plan does not know what it writes
		for i := range 40 {
			p.Writes = append(p.Writes, fmt.Sprintf("src/%d/%s", i, pad))
		}
		p.Writes = append(p.Writes, ".github/workflows/ci.yml")
		factors = append(factors, "guarded_path: .github/workflows/ci.yml")
		want = append(want, ".github/workflows/ci.yml")
	}
	if len(p.Argv) > 0 && p.Effects == nil {
		p.Writes = nil
		p.Argv, p.Executable = []string{"git", "push", "-o", pad}, palyra.Executable{Path: "/home/ann/shop/node_modules/.bin/git"}
		env := map[string]string{"LD_PRELOAD": "/tmp/evil.so", "PATH": "/tmp/bin"}
		for i := range 12 {
			env[fmt.Sprintf("A%d", i)] = strings.ToValidUTF8(pad, "?")
		}
		p.Env = nil
		for name, value := range env {
			p.Env = append(p.Env, palyra.EnvVar{Name: name, Value: value})
		}
		slices.SortFunc(p.Env, func(a, b palyra.EnvVar) int { return strings.Compare(a.Name, b.Name) })
		raw, err := json.Marshal(map[string]any{"command": "git", "env": env})
		if err != nil {
			raw = nil
		}
		p.Arguments = raw
		want = append(want, "node_modules/.bin/git", "LD_PRELOAD=/tmp/evil.so", "PATH=/tmp/bin")
	}
	factors = append(factors, "secret_place: /root/.ssh/id_rsa")
	a.Prompt.Risk = palyra.Risk{Level: palyra.RiskCritical, Factors: factors}
	return a, append(want, "/root/.ssh/id_rsa", "Not shown")
}

// No words of an agent take the place of what is grave: in a question of any kind, each grave thing is seen in twelve lines.
func TestPaddingHidesNothingGrave(t *testing.T) {
	alarms := map[string]struct {
		change func(*palyra.Approval)
		want   []string
		run    bool // only of a program
	}{
		"no sandbox": {func(a *palyra.Approval) { a.Plan.Tier = palyra.TierUnsandboxed }, []string{noSandbox}, true},
		"nothing held": {func(a *palyra.Approval) {
			a.Plan.Tier, a.Plan.Enforcement = palyra.TierC, palyra.Enforcement{Mode: palyra.NetworkOpen}
			a.Plan.AgentSocket, a.Plan.AgentWithin, a.Plan.Asks, a.Plan.Seals = true, []string{palyra.AnyWorkspace}, true, nil
			a.Plan.Staging = palyra.Staging{Writes: palyra.WritesLive}
		}, []string{unenforced, agentInside, everywhere, opensSeals, unsealed}, true},
		"another plan": {func(a *palyra.Approval) { a.PlanDigest = questiontest.SampleDigest }, []string{"WRONG DIGEST"}, false},
	}
	for name, kind := range worst() {
		for padding, pad := range paddings() {
			for alarm, c := range alarms {
				if c.run && (len(kind.Plan.Argv) == 0 || kind.Plan.Effects != nil) {
					continue
				}
				a, want := grave(kind, pad)
				a = questiontest.Bound(a)
				if c.change(&a); a.PlanDigest != questiontest.SampleDigest {
					a = questiontest.Bound(a)
				}
				got := asked(a, 80, false)
				place := asked(a, 80, true) // asked in place, it has two lines less
				flat := strings.NewReplacer("\n             ┆ ", "").Replace(got)
				for _, w := range append(want, c.want...) {
					if !strings.Contains(flat, w) && !strings.Contains(flat, strings.ReplaceAll(w, "WRONG DIGEST", "the plan digest does not belong")) {
						t.Errorf("%s, %s words, %s: no %q in\n%s", name, padding, alarm, w, got)
					}
				}
				for _, w := range append(want, c.want...) {
					flat := strings.NewReplacer("\n             ┆ ", "").Replace(place)
					if w == "192.0.2.7:443" && len(a.Plan.Writes) > 0 {
						continue // paths and hosts share one line there, which has the gravest of each
					}
					if !strings.Contains(flat, w) && !strings.Contains(flat, strings.ReplaceAll(w, "WRONG DIGEST", "the plan digest does not belong")) {
						t.Errorf("%s, %s words, %s, in place: no %q in\n%s", name, padding, alarm, w, place)
					}
				}
				if n := strings.Count(got, "\n"); n > mostLines {
					t.Errorf("%s, %s words, %s: %d lines:\n%s", name, padding, alarm, n, got)
				}
				for _, lines := range []int{mostLines, 24} {
					got := inPane(a, 80, lines)
					flat := strings.NewReplacer("\n             ┆ ", "").Replace(got)
					for _, w := range append(want, c.want...) {
						if w == notShown && lines > mostLines {
							continue // there may be room for all
						}
						if !strings.Contains(flat, w) && !strings.Contains(flat, strings.ReplaceAll(w, "WRONG DIGEST", "the plan digest does not belong")) {
							t.Errorf("%s, %s words, %s, a pane of %d lines: no %q in\n%s", name, padding, alarm, lines, w, got)
						}
					}
					if n := strings.Count(got, "\n"); n > lines {
						t.Errorf("%s, %s words, %s: %d lines in %d:\n%s", name, padding, alarm, n, lines, got)
					}
				}
			}
		}
	}
}

// A path in the risk begins at a directory where its first ones are left out.
func TestBriefPaths(t *testing.T) {
	for in, want := range map[string]string{
		".github/workflows/ci.yml":                               ".github/workflows/ci.yml",
		strings.Repeat("deep/", 20) + ".github/workflows/ci.yml": "…/deep/deep/.github/workflows/ci.yml",
		"dir/" + strings.Repeat("n", 60):                         "…/" + strings.Repeat("n", 19) + "⋯" + strings.Repeat("n", 18),
	} {
		if got := briefPath(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestGravestFirst(t *testing.T) {
	hosts := []string{"a.org:1", "10.0.0.1:1", "10.0.0.2:1", "192.0.2.1:1", "*.b.org:1", "169.254.169.254:80"}
	want := []string{"169.254.169.254:80", "10.0.0.1:1", "*.b.org:1", "192.0.2.1:1", "10.0.0.2:1", "a.org:1"}
	if got := gravestFirst(hosts, hostKind); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
