//go:build agents

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/agent/agenttest"
)

// claudeACP: Claude Code by Zed's adapter, which has its editor read, write and run.
func claudeACP(t *testing.T, b *table) {
	s, m, env := claude(t, b, claudesACP)
	m.wrap = func(c step) agenttest.ToolCall { return agenttest.ToolCall{Name: c.tool, Args: encoded(c.args)} }
	s.behindACP(m, s.overACP(env, s.program("claude-code-acp")))
}

// claudeAgentACP: Claude Code by the adapter that came after it, which asks for permissions and does all by itself.
func claudeAgentACP(t *testing.T, b *table) {
	s, m, env := claude(t, b, claudes)
	s.behindACP(m, s.overACP(env, s.program("claude-agent-acp")))
}

// codexACP: Codex by Zed's adapter, which asks for permissions and does all by itself.
func codexACP(t *testing.T, b *table) {
	s, m, env := codex(t, b, codexes, "gpt-5.5")
	s.behindACP(m, s.overACP(append(env, "OPENAI_API_KEY=stub"), s.program("codex-acp"),
		"-c", `approval_policy="untrusted"`, "-c", `sandbox_mode="danger-full-access"`))
}

// behindACP plays the scenes, and those without a daemon.
func (s *stage) behindACP(m *model, run func(ctx context.Context) ([]byte, error)) {
	s.play(m, acpScenes(s.work, s.with), run)
	s.daemon.stop()
	down := without(s.work, s.with)
	for i := range down {
		down[i].ends = true
	}
	s.play(m, down, run)
}

// acpScenes are what an agent does between an editor and Palyra.
func acpScenes(work string, with tools) []scene {
	return []scene{
		{name: "read", step: toRead(with, work, "small.txt"), want: `(?s).*hello world.*`},
		{
			name: "write a guarded file, allowed", step: toWrite(with, work, ".envrc"), want: `(?s).*`, answer: palyra.AnswerAllow,
			after: time.Second, makes: ".envrc",
		},
		{
			name: "write a guarded file, denied", step: toWrite(with, work, "sub/.envrc"), want: `(?s).*`, answer: palyra.AnswerDeny,
			after: time.Second, spares: "sub/.envrc", ends: true,
		},
		{name: "program", step: toRun(with, "ls small.txt"), want: `(?s).*small\.txt.*`},
		{
			name: "program, allowed", step: toRun(with, "touch asked && echo made"), want: `(?s).*made.*`, answer: palyra.AnswerAllow,
			after: time.Second, makes: "asked",
		},
		{
			name: "program, denied", step: toRun(with, "touch never && echo made"), want: `(?s).*`, answer: palyra.AnswerDeny,
			after: time.Second, spares: "never", ends: true,
		},
	}
}

// overACP runs an agent behind 'palyra acp', as an editor does: one session, one prompt.
func (s *stage) overACP(env []string, agent ...string) func(ctx context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		cmd := s.palyra(append([]string{"acp", "--"}, agent...)...)
		cmd.Dir, cmd.WaitDelay = s.work, 5*time.Second
		cmd.Env = append(cmd.Environ(), env...)
		var said lockedBuffer
		cmd.Stderr = &said
		e := &acpEditor{t: s.t, waiting: map[string]chan rpcMessage{}, dialogs: make(chan string, 64)}
		var err error
		if e.out, err = cmd.StdinPipe(); err != nil {
			return nil, err
		}
		in, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, err
		}
		heard := make(chan struct{})
		go func() { defer close(heard); e.listen(in) }()
		defer func() {
			if !strings.HasPrefix(s.now, "daemon down") {
				s.logAsked()
			}
			_ = e.out.Close()
			<-heard
			_ = cmd.Wait()
		}()
		ended := make(chan error, 1)
		go func() { ended <- e.prompted(ctx, s.work) }()
		select {
		case err := <-ended:
			return said.bytes(), err
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			return said.bytes(), ctx.Err()
		}
	}
}

// prompted opens a session and has its agent do what the model says.
func (e *acpEditor) prompted(ctx context.Context, dir string) error {
	ask := func(method string, params any) (json.RawMessage, error) {
		m, err := e.asks(ctx, method, params)
		if err == nil && m.Error != nil {
			err = fmt.Errorf("%s: %s", method, m.Error)
		}
		return m.Result, err
	}
	can := map[string]any{"fs": map[string]bool{"readTextFile": true, "writeTextFile": true}, "terminal": true}
	if _, err := ask("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": can}); err != nil {
		return err
	}
	raw, err := ask("session/new", map[string]any{"cwd": dir, "mcpServers": []any{}})
	if err != nil {
		return err
	}
	var made struct {
		ID string `json:"sessionId"`
	}
	if err := json.Unmarshal(raw, &made); err != nil || made.ID == "" {
		return errors.Join(err, errors.New("no session"))
	}
	_, err = ask("session/prompt", map[string]any{"sessionId": made.ID, "prompt": []any{map[string]string{"type": "text", "text": "go"}}})
	return err
}

// asks sends a request and waits for the answer, however long it takes.
func (e *acpEditor) asks(ctx context.Context, method string, params any) (rpcMessage, error) {
	raw, _ := json.Marshal(params)
	ch := make(chan rpcMessage, 1)
	e.mu.Lock()
	e.next++
	id := fmt.Sprint(e.next)
	e.waiting[id] = ch
	e.mu.Unlock()
	e.write(rpcMessage{ID: json.RawMessage(id), Method: method, Params: raw})
	select {
	case m := <-ch:
		return m, nil
	case <-ctx.Done():
		return rpcMessage{}, ctx.Err()
	}
}

// lockedBuffer is written by a program that may outlive who reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

// logAsked logs what was asked so far.
func (s *stage) logAsked() {
	page, err := s.client(client.OperatorDoor).Approvals(s.t.Context(), client.ApprovalFilter{})
	for _, a := range page.Approvals {
		s.t.Logf("asked: %s %s: %v", a.Plan.Tool, a.Plan.Arguments, a.Decision.Answer)
	}
	if err != nil {
		s.t.Error(err)
	}
}
