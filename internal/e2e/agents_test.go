//go:build agents

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// stage is a daemon, a workspace and a home for agents.
type stage struct {
	*daemon
	table     *table
	way       string
	with      tools
	dir, home string
	record    string // what a client sent to the server
	now       string // the scene
	windows   int    // that were opened
	inside    bool   // the agent itself is in the sandbox, and its start is asked about
}

func newAgentStage(t *testing.T, b *table, with tools) *stage {
	t.Helper()
	dir := os.Getenv("PALYRA_AGENTS")
	if dir == "" {
		t.Fatal("start it with scripts/agents.sh")
	}
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	home, err := os.MkdirTemp(dir, "home-") // Codex wants none below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endBelow(home)
		_ = os.RemoveAll(home)
	})
	d.write(filepath.Join(d.work, "small.txt"), "hello world", 0o644)
	d.write(filepath.Join(d.work, "big.go"), source(), 0o644)
	if out, err := exec.Command("git", "-C", d.work, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	way := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
	return &stage{daemon: d, table: b, way: way, with: with, dir: dir, home: home, record: filepath.Join(home, "sent.jsonl")}
}

// endBelow ends what an agent started from its home and left: Codex's window has a daemon
// there that outlives it.
func endBelow(home string) {
	all, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range all {
		to, err := os.Readlink(exe)
		if err != nil || !strings.HasPrefix(to, home+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(exe))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func (s *stage) program(name string) string {
	return filepath.Join(s.dir, "node_modules", ".bin", name)
}

// palyraIn runs the command with the agents' home.
func (s *stage) palyraIn(args ...string) {
	s.t.Helper()
	cmd := s.palyra(args...)
	cmd.Env = append(cmd.Environ(), "HOME="+s.home, "PATH="+filepath.Join(s.dir, "node_modules", ".bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	s.t.Logf("palyra %s\n%s", strings.Join(args, " "), out)
}

// tap has what a client sends to the server kept in a file.
func (s *stage) tap(file string) {
	s.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(file, strings.ReplaceAll(string(raw), bin(s.t, "palyra"), s.tapped()), 0o600)
}

// tapped is a program that is palyra and keeps what it is sent.
func (s *stage) tapped() string {
	tee := filepath.Join(s.home, "palyra-tapped")
	s.write(tee, fmt.Sprintf("#!/bin/sh\ntee -a %s | %s \"$@\"\n", s.record, bin(s.t, "palyra")), 0o755)
	return tee
}

// keep writes what a client sent into testdata, for 'make test' to send it again.
func (s *stage) keep(name string) {
	if os.Getenv("PALYRA_AGENTS_RECORD") == "" {
		return
	}
	raw, err := os.ReadFile(s.record)
	if err != nil {
		s.t.Error(err)
		return
	}
	text := strings.NewReplacer(s.work, "/w", s.home, "/home/me").Replace(string(raw))
	s.write(filepath.Join("..", "mcp", "serve", "testdata", name), text, 0o644)
}

// person answers the next question after a while.
func (s *stage) person(ctx context.Context, c scene) {
	if s.inside { // the start of the agent
		if _, err := s.decideNext(ctx, palyra.AnswerAllow); err != nil {
			return
		}
	}
	if c.answer == "" {
		return
	}
	person := s.client(client.OperatorDoor)
	for {
		page, err := person.Approvals(ctx, client.ApprovalFilter{Pending: true})
		if err == nil && len(page.Approvals) > 0 {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(c.after):
	}
	if _, err := s.decideNext(ctx, c.answer); err != nil && ctx.Err() == nil {
		s.t.Errorf("%s: the answer: %v", c.name, err)
	}
}

// play runs an agent once for each scene and puts what its model was given into the table.
func (s *stage) play(m *model, all []scene, run func(ctx context.Context) ([]byte, error)) {
	only := regexp.MustCompile(os.Getenv("PALYRA_AGENTS_SCENES"))
	for _, c := range all {
		if !only.MatchString(c.name) {
			continue
		}
		s.now = c.name
		m.mu.Lock()
		m.step, m.given, m.before = c.step, nil, m.done
		m.mu.Unlock()
		ctx, done := context.WithTimeout(s.t.Context(), 5*time.Minute)
		var wg sync.WaitGroup
		wg.Go(func() { s.person(ctx, c) })
		began := time.Now()
		out, err := run(ctx)
		took := time.Since(began)
		done()
		wg.Wait()
		m.mu.Lock()
		results := m.given
		m.mu.Unlock()
		verdict := s.judge(c, results)
		if verdict != "held" {
			s.t.Errorf("%s: %s (%v)\n%s", c.name, verdict, err, tailOf(out, 3000))
		}
		s.table.add(s.t, row{s.way, c.name, took, results, verdict})
	}
}

// judge says whether the model was given what it should.
func (s *stage) judge(c scene, results []result) string {
	if len(results) == 0 && !c.ends {
		return "the model was given nothing"
	}
	for _, r := range results {
		if strings.Contains(r.Raw, "approvals decide") || strings.Contains(r.Raw, "approvals watch") {
			return "the model is told how its question is answered"
		}
	}
	last := ""
	if len(results) > 0 {
		last = results[len(results)-1].text()
	}
	switch {
	case !regexp.MustCompile(`^(?:` + c.want + `)$`).MatchString(last):
		return fmt.Sprintf("not as it should be: %.300q", last)
	case c.whole != "" && followed(results, s.with) != c.whole:
		return fmt.Sprintf("%d of %d bytes arrived", len(followed(results, s.with)), len(c.whole))
	case c.makes != "" && !exists(filepath.Join(s.work, c.makes)):
		return c.makes + " was not made"
	case c.spares != "" && exists(filepath.Join(s.work, c.spares)):
		return c.spares + " was made"
	}
	return "held"
}

func tailOf(out []byte, n int) []byte { return out[max(0, len(out)-n):] }
