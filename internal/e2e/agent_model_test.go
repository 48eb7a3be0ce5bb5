//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/agent/agenttest"
)

// modelKey is the key of the providers of these tests. It must be found nowhere
// but in its file and on the wire.
const modelKey = "sk-e2e-5f0c1d77aa9b4e3f"

// withModel configures a provider on a server of the test's own.
func (d *daemon) withModel(kind string, s *agenttest.Server) {
	d.t.Helper()
	base := s.URL
	if kind == "openai" {
		base += "/v1"
	}
	key := filepath.Join(filepath.Dir(d.home), "model.key")
	d.write(key, modelKey+"\n", 0o600)
	d.write(filepath.Join(d.home, "config.toml"), fmt.Sprintf(
		"[providers.stub]\nkind = %q\nbase_url = %q\nkey_file = %q\ntimeout_ms = 20000\n\n[models]\ndefault = \"stub/tiny\"\n", kind, base,
		key), 0o600)
}

func (d *daemon) write(path, text string, mode fs.FileMode) {
	d.t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		d.t.Fatal(err)
	}
}

// discreet fails when the key stands anywhere in the state or the log.
func (d *daemon) discreet(more ...string) {
	d.t.Helper()
	for _, text := range append(more, d.log.String()) {
		if strings.Contains(text, modelKey) {
			d.t.Errorf("the key is shown:\n%s", text)
		}
	}
	err := filepath.WalkDir(d.home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte(modelKey)) {
			d.t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		d.t.Error(err)
	}
}

// askModel starts a run of a model.
func (d *daemon) askModel(prompt string) palyra.Run {
	d.t.Helper()
	if _, err := d.client(client.OperatorDoor).AddWorkspace(d.t.Context(), d.work, ""); err != nil &&
		palyra.AsError(err).Reason != palyra.ReasonExists {
		d.t.Fatal(err)
	}
	r, err := d.client(client.AgentDoor).StartRun(d.t.Context(), client.RunRequest{
		Input:     fmt.Sprintf(`{"prompt":%q}`, prompt),
		Workspace: d.work, Surface: palyra.SurfaceCLI,
	})
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.log)
	}
	return r
}

// told follows a run to its end.
func (d *daemon) told(id palyra.RunID) (palyra.Run, []palyra.TapeEntry) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	c := d.client(client.OperatorDoor)
	tape, err := attach(ctx, c, id, 0)
	if err != nil {
		d.t.Fatalf("%v: %s\n%s", err, kinds(tape), d.log)
	}
	r, err := c.GetRun(ctx, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return r, tape
}

func said(tape []palyra.TapeEntry) string {
	var b strings.Builder
	for _, e := range tape {
		if e.ModelText != nil {
			b.WriteString(e.ModelText.Text)
		}
	}
	return b.String()
}

var touch = agenttest.ToolCall{Name: "palyra_process_run", Args: []string{
	`{"command":"/bin/sh","ar`,
	`gs":["-c","echo x >> started; echo made"]}`,
}}

// A model runs a program that a person must allow, hears what it printed, and
// ends in its own words; the next run of the session goes on from there.
func TestAModelIsAllowedALive(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"openai", "anthropic"} {
		t.Run(kind, func(t *testing.T) {
			s := agenttest.New(t,
				agenttest.Reply{Text: []string{"Let me ", "run it.\n"}, Calls: []agenttest.ToolCall{
					touch,
					{Name: "palyra_echo", Args: []string{`{"text":"hi"}`}},
				}, Piece: 5},
				agenttest.Reply{Text: []string{"It printed: made."}},
				agenttest.Reply{Text: []string{"I told you."}},
			)
			d := newDaemon(t)
			d.ownWork()
			d.withModel(kind, s)
			d.mustStart()
			if _, err := d.client(client.OperatorDoor).AddWorkspace(t.Context(), d.work, ""); err != nil {
				t.Fatal(err)
			}
			c := atTerminal(t, d.palyra("run", "run the program", "-w", d.work))
			c.find(`Type allow`)
			if _, err := c.PTY.WriteString("allow\n"); err != nil {
				t.Fatal(err)
			}
			c.find(`run \w+ done, 2 calls, 22 tokens in, 14 tokens out`)
			if text := c.Seen.String(); !strings.Contains(text, "Let me run it.") || !strings.Contains(text, "It printed: made.") {
				t.Errorf("%s", text)
			}
			r := d.askModel("what was it?")
			r, tape := d.told(r.ID)
			if r.State != palyra.RunDone || r.Model != "tiny" || r.Provider != "stub" || r.InputTokens != 11 || said(tape) != "I told you." {
				t.Errorf("%+v %s", r, kinds(tape))
			}
			seen := s.Seen()
			if len(seen) != 3 || !strings.Contains(seen[1].Raw, `made\\n`) || !strings.Contains(seen[1].Raw, "untrusted") ||
				!strings.Contains(seen[2].Raw, "run the program") || !strings.Contains(seen[2].Raw, "It printed: made.") {
				t.Errorf("%d requests; the last: %s", len(seen), seen[len(seen)-1].Raw)
			}
			if b, err := os.ReadFile(filepath.Join(d.work, "started")); err != nil || string(b) != "x\n" {
				t.Errorf("%q, %v", b, err)
			}
			d.verify()
			d.stop()
			d.discreet(c.Seen.String())
		})
	}
}

// A model that is overloaded, and one whose connection breaks in the middle, is
// asked again; nothing is lost.
func TestAModelIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"openai", "anthropic"} {
		s := agenttest.New(t,
			agenttest.Reply{
				Status: 429, Header: map[string]string{"Retry-After": "1"},
				Body: `{"error":{"type":"rate_limit_error","message":"slow down ` + modelKey + `"}}`,
			},
			agenttest.Reply{Status: 529, Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
			agenttest.Reply{Text: []string{"half an answer, ", strings.Repeat("and more ", 100)}, Cut: 900},
			agenttest.Reply{Text: []string{"a whole one"}},
		)
		d := newDaemon(t)
		d.withModel(kind, s)
		d.mustStart()
		r, tape := d.told(d.askModel("go").ID)
		if r.State != palyra.RunDone || !strings.HasSuffix(said(tape), "a whole one") || len(s.Seen()) != 4 {
			t.Errorf("%s: %+v, %d asked: %q", kind, r, len(s.Seen()), said(tape))
		}
		d.stop()
		d.discreet()
	}
}

// What cannot be mended is said at once, with what to do, and without the key.
func TestAModelThatRefuses(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Reply{Status: 401, Body: `{"error":{"message":"Incorrect API key provided: ` + modelKey + `"}}`})
	d := newDaemon(t)
	d.withModel("openai", s)
	d.mustStart()
	if _, err := d.client(client.OperatorDoor).AddWorkspace(t.Context(), d.work, ""); err != nil {
		t.Fatal(err)
	}
	out, err := d.palyra("run", "go", "-w", d.work).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "refused the key") || !strings.Contains(string(out), "model.key") ||
		!strings.Contains(string(out), "model_key_refused") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.Chmod(filepath.Join(filepath.Dir(d.home), "model.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err = d.palyra("run", "go", "-w", d.work).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "chmod 600") || len(s.Seen()) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	d.stop()
	d.discreet(string(out))
	d.mustStart("PALYRA_MODELS_PRINCIPALS=agent:trusted")
	_, err = d.client(client.AgentDoor).StartRun(t.Context(), client.RunRequest{
		Input: `{"prompt":"go"}`, Workspace: d.work,
		Surface: palyra.SurfaceCLI,
	})
	if palyra.AsError(err).Reason != palyra.ReasonPermission || len(s.Seen()) != 1 {
		t.Errorf("an agent that may not: %v", err)
	}
	gone := newDaemon(t) // nobody listens there
	gone.withModel("openai", s)
	s.Close()
	gone.write(filepath.Join(filepath.Dir(gone.home), "model.key"), modelKey, 0o600)
	gone.mustStart()
	if r, _ := gone.told(gone.askModel("go").ID); r.ReasonCode != palyra.ReasonModelUnreachable ||
		!strings.Contains(r.Remedy, "running at http://127.0.0.1") {
		t.Errorf("%+v", r)
	}
	none := newDaemon(t)
	none.mustStart()
	out, err = none.palyra("run", "go", "-w", none.work).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "[providers.anthropic]") ||
		!strings.Contains(string(out), "no provider of models is configured") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A daemon that is killed in the middle of a turn goes on where it was: turns on
// record are not asked for again, calls are not made again.
func TestAModelsRunSurvivesItsDaemon(t *testing.T) {
	s := agenttest.New(t,
		agenttest.Reply{Text: []string{"First."}, Calls: []agenttest.ToolCall{touch}},
		agenttest.Reply{
			Text: []string{"Half of the ", "second"}, Raw: agenttest.Reply{Text: []string{"Half of the second"}}.OpenAI()[:400],
			Hang: true,
		},
		agenttest.Reply{Text: []string{"The second."}},
	)
	d := newDaemon(t)
	d.ownWork()
	d.withModel("openai", s)
	d.mustStart()
	r := d.askModel("go")
	if _, err := d.client(client.OperatorDoor).Decide(t.Context(), allow(d.pending(d.client(client.OperatorDoor)), palyra.ScopeOnce,
		0)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second question is being answered
		<-s.Asked()
	}
	d.kill()
	d.mustStart()
	r, tape := d.told(r.ID)
	if r.State != palyra.RunDone || r.Calls != 1 || !strings.HasSuffix(said(tape), "The second.") || strings.Count(said(tape), "First.") != 1 {
		t.Errorf("%+v: %q\n%s", r, said(tape), kinds(tape))
	}
	if seen := s.Seen(); len(seen) != 3 || !strings.Contains(seen[2].Raw, "made") {
		t.Errorf("it was asked %d times", len(seen))
	}
	if b, err := os.ReadFile(filepath.Join(d.work, "started")); err != nil || string(b) != "x\n" {
		t.Errorf("it ran %q, %v", b, err)
	}
	d.verify()
	d.stop()
	d.discreet()
}

// A cancel ends a run whose model does not answer, at once.
func TestAModelsRunIsCancelled(t *testing.T) {
	s := agenttest.New(t, agenttest.Reply{Raw: "\n", Hang: true})
	d := newDaemon(t)
	d.withModel("anthropic", s)
	d.mustStart()
	r := d.askModel("go")
	<-s.Asked()
	began := time.Now()
	if err := d.client(client.OperatorDoor).CancelRun(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if r, _ := d.told(r.ID); r.State != palyra.RunCancelled || time.Since(began) > endsWithin {
		t.Errorf("%+v after %s", r, time.Since(began))
	}
}
