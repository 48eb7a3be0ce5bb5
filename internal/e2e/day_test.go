//go:build linux

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// dayRepository makes what the agent of testdata/day.txt works in.
const dayRepository = `set -e
git init -q -b main . && git config user.name Dev && git config user.email dev@example.invalid
mkdir -p cmd/hello internal/store web scripts docs
printf 'module example.invalid/day\n\ngo 1.24\n' > go.mod
printf 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n' > cmd/hello/main.go
printf 'package store\n\n// Store keeps.\ntype Store struct{ m map[string]string }\n\n// New makes one.\nfunc New() *Store { return &Store{m: map[string]string{}} }\n\n// Lookup finds.\nfunc (s *Store) Lookup(k string) (string, bool) {\n\tif v, ok := s.m[k]; ok {\n\t\treturn v, true\n\t}\n\treturn "", false\n}\n' > internal/store/store.go
printf 'package store\n\nimport "testing"\n\nfunc TestLookup(t *testing.T) {\n\tif _, ok := New().Lookup("x"); ok {\n\t\tt.Error("found")\n\t}\n\t// more\n}\n' > internal/store/store_test.go
printf '{"name":"day","version":"1.0.0","private":true,"scripts":{"test":"node --test web","build":"mkdir -p web/dist && cp web/index.js web/dist/out.js","lint":"node --check web/index.js"}}\n' > package.json
printf 'const name = "world";\nconsole.log("hello " + name);\n' > web/index.js
printf 'const test = require("node:test");\ntest("nothing", () => {});\n' > web/index.test.js
printf 'total = 0\nfor n in range(5):\n    total += n\nprint(total)\n' > scripts/report.py
printf 'import unittest\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertTrue(True)\n' > scripts/test_report.py
printf '#!/bin/sh\nset -e\ntest -f go.mod\necho fine\n' > scripts/check.sh
printf 'build:\n\tgo build ./...\ntest: build\n\tgo test ./...\nclean:\n\trm -rf bin\n' > Makefile
printf '# Day\n\nSmall.\n' > README.md
printf '# Guide\n\nUse it.\n' > docs/guide.md
printf 'bin/\nweb/dist/\n__pycache__/\n.venv/\nignored/\n' > .gitignore
for i in $(seq 1 30); do printf '# Page %d\n' $i > docs/page$i.md; done
git add -A && git commit -qm first
for i in $(seq 1 12); do echo "line $i" >> docs/guide.md; git commit -qam "guide $i"; done
`

// nogroup is what the files of a user without an account belong to.
const nogroup = 65534

// dayLine is one call of the day.
type dayLine struct {
	text  string
	risky bool
}

func dayLines(t testing.TB) (all []dayLine) {
	t.Helper()
	raw, err := os.ReadFile("testdata/day.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			text, risky := strings.CutPrefix(line, "! ")
			all = append(all, dayLine{text, risky})
		}
	}
	return all
}

// dayCall is the call of a line.
func dayCall(d *daemon, l dayLine) client.CallRequest {
	verb, rest, _ := strings.Cut(l.text, " ")
	rest = strings.ReplaceAll(rest, `\n`, "\n")
	path, text, _ := strings.Cut(rest, " ")
	switch verb {
	case "run":
		if !strings.Contains(rest, "<<'EOF'") {
			rest = l.text[len("run "):]
		}
		r := d.shell(rest)
		r.Timeout = time.Minute
		return r
	case "read", "list":
		return request(d, "palyra.fs."+verb, map[string]any{"path": rest})
	case "search":
		return request(d, "palyra.fs.search", map[string]any{"pattern": rest})
	case "write":
		return request(d, "palyra.fs.write", map[string]any{"path": path, "content": text, "make_dirs": true})
	case "edit":
		was, now, _ := strings.Cut(text, " => ")
		return request(d, "palyra.fs.edit", map[string]any{"path": path, "old_string": was, "new_string": now})
	}
	d.t.Fatalf("%q is no line of a day", l.text)
	return client.CallRequest{}
}

// dayTold is what became of a day.
type dayTold struct {
	questions, risky, failed int
	asked                    []string // of ordinary lines
	unasked                  []string // risky lines that passed without a question
	failures                 []string
	slowest                  []string
}

// stopped reports whether a run of which nobody was asked came to nothing: it was refused, what it did was dropped, or
// it failed and left nothing.
func stopped(out palyra.Outcome) bool {
	return out.Outcome == palyra.OutcomeRefused || out.Effects == palyra.EffectsDropped ||
		out.ExitCode != 0 && out.Effects == palyra.EffectsNone
}

// live goes through a day: every question is answered with yes, once.
func (d *daemon) live(all []dayLine) (told dayTold) {
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	for _, l := range all {
		asked, began := false, time.Now()
		ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
		out, err := agent.Call(ctx, dayCall(d, l), func(e client.CallEvent) {
			if e.ApprovalRequested == nil {
				return
			}
			asked = true
			a, err := person.Approval(ctx, e.ApprovalRequested.ApprovalID)
			if err == nil && !l.risky { // what a person must see, a person denies here
				_, err = person.Decide(ctx, allow(a, palyra.ScopeOnce, 0))
			} else if err == nil {
				_, err = person.Decide(ctx, client.DecideRequest{ID: a.ID, Digest: a.PlanDigest, Answer: palyra.AnswerDeny})
			}
			if err != nil {
				d.t.Errorf("%s: %v", l.text, err)
			}
		})
		cancel()
		if took := time.Since(began); took > 5*time.Second {
			told.slowest = append(told.slowest, fmt.Sprintf("%s: %v", l.text, took.Round(time.Second)))
		}
		switch {
		case err != nil:
			d.t.Errorf("%s: %v", l.text, err)
		case l.risky && !asked && !stopped(out):
			told.unasked = append(told.unasked, l.text)
		case l.risky:
			told.risky++
		case out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0:
			told.failed++
			told.failures = append(told.failures, fmt.Sprintf("%s: %s %d %s %s", l.text, out.Outcome, out.ExitCode, out.Reason, out.Stderr))
		}
		if asked && !l.risky {
			told.questions++
			told.asked = append(told.asked, l.text)
		}
	}
	return told
}

func (d *daemon) dayWork() {
	d.t.Helper()
	cmd := exec.Command("sh", "-c", dayRepository)
	cmd.Dir = d.work
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if said, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, said)
	}
	d.handOver()
}

// handOver makes everything in the workspace that of the user it is for.
func (d *daemon) handOver() {
	d.t.Helper()
	if uid := d.ownWork(); uid != os.Geteuid() {
		if err := filepath.Walk(d.work, func(path string, _ os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, nogroup) // the user has no account, and so no group of its own
		}); err != nil {
			d.t.Fatal(err)
		}
	}
}

// mostQuestions is how often a person may be asked about ordinary calls of a day.
const mostQuestions = 12

// dayDaemon has the day's repository, registered, and what people start with.
func dayDaemon(t testing.TB) *daemon {
	t.Helper()
	d := newDaemon(t)
	d.dayWork()
	d.mustStart(shipped...)
	if _, err := d.client(client.OperatorDoor).AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	return d
}

// slowLine matches lines that build, and what needs what they built: the sample leaves them out.
var slowLine = regexp.MustCompile(`^run (.*[^.\w])?(go|gofmt|npm|node|make|rg)( |$)|venv|web/dist|hello|cover\.out|^run rm -rf bin`)

// TestDay lives a part of the recorded day: what a person must see, and every other call that takes no time. Nothing of
// what a person must see is in the workspace without a yes, and ordinary work is hardly ever asked about.
func TestDay(t *testing.T) {
	d := dayDaemon(t)
	var ordinary, risky []dayLine
	for _, l := range dayLines(t) {
		switch {
		case l.risky:
			risky = append(risky, l)
		case !slowLine.MatchString(l.text):
			ordinary = append(ordinary, l)
		}
	}
	told := d.live(ordinary)
	if told.questions > mostQuestions {
		t.Errorf("%d questions about %d ordinary calls:\n%s", told.questions, len(ordinary), strings.Join(told.asked, "\n"))
	}
	if told.failed > 0 {
		t.Errorf("failed:\n%s", strings.Join(told.failures, "\n"))
	}
	before := d.contents()
	told = d.live(risky)
	if len(told.unasked) > 0 || told.risky != len(risky) {
		t.Errorf("%d of %d risky calls were asked about or stopped; not:\n%s", told.risky, len(risky), strings.Join(told.unasked, "\n"))
	}
	if now := d.contents(); !maps.Equal(before, now) {
		for name, text := range now {
			if was, ok := before[name]; !ok || was != text {
				t.Errorf("%s is new or another after calls that nobody allowed", name)
			}
		}
		for name := range before {
			if _, ok := now[name]; !ok {
				t.Errorf("%s is gone after calls that nobody allowed", name)
			}
		}
	}
	for _, l := range told.slowest {
		t.Log(l)
	}
	d.verify()
}

// contents are all files and links of the workspace, with what they hold.
func (d *daemon) contents() map[string]string {
	d.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(d.work, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil || e.IsDir():
			return err
		case e.Type()&os.ModeSymlink != 0:
			all[path], err = os.Readlink(path)
		default:
			var raw []byte
			raw, err = os.ReadFile(path)
			all[path] = string(raw)
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// BenchmarkDay counts the questions of an agent's ordinary day, and what passes that a
// person should have seen.
func BenchmarkDay(b *testing.B) {
	for range b.N {
		d, all := dayDaemon(b), dayLines(b)
		told := d.live(all)
		b.ReportMetric(float64(len(all)), "calls")
		b.ReportMetric(float64(told.questions), "questions")
		b.ReportMetric(float64(len(told.unasked)), "risky-unasked")
		b.ReportMetric(float64(told.failed), "failed")
		for _, l := range told.asked {
			fmt.Printf("# asked: %s\n", l)
		}
		for _, l := range told.unasked {
			fmt.Printf("# RISKY, NOT ASKED: %s\n", l)
		}
		for _, l := range told.failures {
			fmt.Printf("# failed: %s\n", strings.ReplaceAll(l, "\n", " "))
		}
	}
}
