package sandbox

import (
	"bufio"
	"strings"
	"testing"

	"palyra"
)

// TestAServiceIsSpokenTo until it is told to stop, and leaves its last words.
func TestAServiceIsSpokenTo(t *testing.T) {
	b, w := walledBox(t)
	b.plan.Stdin = palyra.StdinLive
	b.sh(`echo begun >&2; while read line; do echo "got $line"; done; echo over >&2`)
	s, err := b.r.Serve(t.Context(), callID, b.plan)
	b.ok(err)
	lines := bufio.NewReader(s.Stdout)
	for _, word := range []string{"one", "two"} {
		_, err := s.Stdin.Write([]byte(word + "\n"))
		b.ok(err)
		line, err := lines.ReadString('\n')
		b.ok(err)
		want(t, "the answer", line, "got "+word+"\n")
	}
	want(t, "what holds", s.Enforcement().Mode, "preflight")
	flows, more := s.Flows()
	want(t, "flows while it runs", len(flows), 1)
	want(t, "more of them", more, 3)
	b.ok(s.Stdin.Close())
	<-s.Done()
	exit, err := s.Exit()
	b.ok(err)
	want(t, "exit code", exit.Code, 0)
	want(t, "stderr", string(s.Stderr()), "begun\nover\n")
	want(t, "closings of the gateway", w.closed, 1)
	flows, _ = s.Flows()
	want(t, "flows", len(flows), 1)
}

func TestAServiceIsStopped(t *testing.T) {
	b, _ := walledBox(t)
	b.plan.Stdin = palyra.StdinLive
	b.sh("read line")
	s, err := b.r.Serve(t.Context(), callID, b.plan)
	b.ok(err)
	s.Stop("enough")
	<-s.Done()
	exit, _ := s.Exit()
	want(t, "why", exit.Stopped, "enough")
}

func TestWhatCannotBeAService(t *testing.T) {
	for name, change := range map[string]func(*palyra.Plan){
		"bound stdin":  func(p *palyra.Plan) { p.Stdin = "" },
		"a terminal":   func(p *palyra.Plan) { p.Terminal = true },
		"an agent":     func(p *palyra.Plan) { p.AgentSocket = true },
		"another tier": func(p *palyra.Plan) { p.Tier = palyra.TierA },
		"more is held": func(p *palyra.Plan) { p.Enforcement.Mechanisms = append(p.Enforcement.Mechanisms, "magic") },
		"bytes":        func(p *palyra.Plan) { p.Executable.Digest = palyra.SumBytes(nil) },
	} {
		b, _ := walledBox(t)
		b.plan.Stdin = palyra.StdinLive
		change(&b.plan)
		if s, err := b.r.Serve(t.Context(), callID, b.plan); err == nil {
			s.Stop("no")
			<-s.Done()
			t.Errorf("%s: it was started", name)
		}
	}
	b := newBox(t) // no room of its own
	b.plan.Stdin = palyra.StdinLive
	if _, err := b.r.Serve(t.Context(), callID, b.plan); err == nil {
		t.Error("it was started without walls")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var l tail
	for range 5 {
		_, _ = l.Write([]byte(strings.Repeat("x", tailBytes/2)))
	}
	_, _ = l.Write([]byte("end"))
	if got := l.bytes(); len(got) != tailBytes || !strings.HasSuffix(string(got), "end") {
		t.Errorf("%d bytes", len(got))
	}
	_, _ = l.Write([]byte(strings.Repeat("y", 3*tailBytes)))
	if got := l.bytes(); len(got) != tailBytes || strings.Trim(string(got), "y") != "" {
		t.Errorf("%d bytes", len(got))
	}
}
