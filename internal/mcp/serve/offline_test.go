package serve_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

func noDaemon() error {
	return palyra.Errorf(palyra.Unavailable, client.ReasonNoDaemon, "no daemon listens on /home/ann/agent.sock").
		WithRemedy("palyra up --detach")
}

func names(t *testing.T, p *peer) (all []string) {
	t.Helper()
	list, err := p.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		all = append(all, tool.Name)
	}
	return all
}

// TestWithoutADaemon: a client connects all the same, is told by the one tool that is there what a person has to
// do, and gets the others when the daemon is there.
func TestWithoutADaemon(t *testing.T) {
	for name, over := range map[string]func(*testing.T, *serve.Server) *peer{
		"stdio": func(t *testing.T, s *serve.Server) *peer { p, _ := stdio(t, s); return p },
		"http":  func(t *testing.T, s *serve.Server) *peer { return overHTTP(t, web(t, s), older) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			d.away = noDaemon()
			p := over(t, server(t, d, nil))
			if got := names(t, p); !slices.Equal(got, []string{"palyra_status"}) {
				t.Fatalf("offered without a daemon: %q", got)
			}
			for _, tool := range []string{"palyra_status", "palyra_echo", "palyra_call_wait"} { // a client may remember some
				r, err := p.call(t.Context(), tool, map[string]any{})
				if err != nil || !r.IsError {
					t.Fatalf("%s: %v %+v", tool, err, r)
				}
				if text := words(t, r); !strings.Contains(text, "have a person start it with 'palyra up'") || strings.Contains(text, "/home/ann") {
					t.Errorf("%s: %s", tool, text)
				}
			}
			if len(d.made()) != 0 {
				t.Error("a call was made")
			}
			d.set(echoTool())
			d.comes()
			<-p.changed
			for slices.Contains(names(t, p), "palyra_status") {
				<-p.changed
			}
			if got := names(t, p); !slices.Equal(got, []string{"palyra_call_output", "palyra_call_wait", "palyra_echo"}) {
				t.Errorf("offered with a daemon: %q", got)
			}
			if r, err := p.call(t.Context(), "palyra_echo", map[string]any{"text": "x"}); err != nil || r.IsError {
				t.Errorf("%v %+v", err, r)
			}
		})
	}
}

// TestStatusFindsTheDaemon: to ask is to look, for clients that hear of no change.
func TestStatusFindsTheDaemon(t *testing.T) {
	d := newDaemon()
	d.away = noDaemon()
	p, _ := stdio(t, server(t, d, func(c *serve.Config) { c.Poll = time.Hour }))
	names(t, p)
	d.comes()
	r, err := p.call(t.Context(), "palyra_status", nil)
	if err != nil || r.IsError || !strings.Contains(words(t, r), "list the tools again") {
		t.Fatalf("%v %+v", err, r)
	}
	if got := names(t, p); !slices.Contains(got, "palyra_echo") || slices.Contains(got, "palyra_status") {
		t.Errorf("%q", got)
	}
}

// TestDaemonThatHangs: a socket that takes a client and never answers does not keep it from connecting.
func TestDaemonThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		since := time.Now()
		p, _ := stdio(t, serverOf(t, hanging{d}, nil))
		if took := time.Since(since); took > 6*time.Second {
			t.Errorf("connected after %v", took)
		}
		r, err := p.call(t.Context(), "palyra_status", nil)
		if err != nil || !r.IsError || !strings.Contains(words(t, r), "remedy: have a person look") {
			t.Errorf("%v %+v", err, r)
		}
	})
}

// hanging is a daemon that never lists its tools.
type hanging struct{ *daemon }

func (hanging) Tools(ctx context.Context) ([]palyra.Tool, error) {
	<-ctx.Done()
	return nil, errors.Join(ctx.Err())
}

// TestDaemonThatGoes: tools that were there once stay, and say themselves that the daemon is away.
func TestDaemonThatGoes(t *testing.T) {
	d := newDaemon()
	p, _ := stdio(t, server(t, d, func(c *serve.Config) { c.PendingAfter = 50 * time.Millisecond }))
	before := names(t, p)
	d.goes()
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return palyra.Outcome{}, noDaemon()
	}
	if r, err := p.call(t.Context(), "palyra_echo", nil); err != nil || !r.IsError || !strings.Contains(words(t, r), "palyra up") {
		t.Errorf("%v %+v", err, r)
	}
	if got := names(t, p); !slices.Equal(got, before) {
		t.Errorf("%q", got)
	}
}
