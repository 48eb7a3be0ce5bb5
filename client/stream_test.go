package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"palyra"
	"palyra/client"
)

// stream opens a stream that ends with the test.
func (b *bench) stream(c *client.Client) *client.RunStream {
	b.t.Helper()
	s := c.RunStream(b.t.Context())
	b.t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestRunStream(t *testing.T) {
	for door, open := range map[string]func(*bench) *client.Client{
		"agent": (*bench).agent, "operator": (*bench).operator,
	} {
		t.Run(door, func(t *testing.T) {
			b := newBench(t)
			tape := b.parts.Tape("R1")
			s := b.stream(open(b))
			run, err := s.Start(client.RunRequest{Provider: "scripted", Input: "x", Budget: palyra.Budget{Calls: 2}})
			if err != nil || run.ID != "R1" || run.Budget.Calls != 2 || run.Principal.IsAgent() != (door == "agent") {
				t.Fatalf("%+v %v", run, err)
			}
			for i := range 3 { // entries that come before an answer are kept
				tape.Write(text("R1", fmt.Sprint(i)))
			}
			must(t, s.Input("go on"))
			must(t, s.Cancel())
			seen := b.parts.Seen()
			if !slices.Contains(seen, "input R1 go on") || !slices.ContainsFunc(seen,
				func(s string) bool { return strings.HasPrefix(s, "cancel run R1") }) {
				t.Errorf("%q", seen)
			}
			tape.Write(finished("R1"))
			for i := range 3 {
				if e, err := s.Recv(); err != nil || e.Seq != int64(i+1) || e.ModelText.Text != fmt.Sprint(i) {
					t.Fatalf("%+v %v", e, err)
				}
			}
			if e, err := s.Recv(); err != nil || e.RunFinished == nil {
				t.Fatalf("%+v %v", e, err)
			}
			for range 2 {
				if _, err := s.Recv(); !errors.Is(err, io.EOF) {
					t.Errorf("%v", err)
				}
			}
			if err := s.Input("too late"); reason(err) != palyra.ReasonRunEnded {
				t.Errorf("%v", err)
			}
		})
	}
}

// Questions are answered while somebody else reads the tape.
func TestRunStreamDecides(t *testing.T) {
	b := newBench(t)
	tape := b.parts.Tape("R1")
	s := b.stream(b.operator())
	if _, err := s.Attach("R1", 0); err != nil {
		t.Fatal(err)
	}
	read := make(chan int64, 100)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			e, err := s.Recv()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("%v", err)
				}
				close(read)
				return
			}
			read <- e.Seq
		}
	})
	for range 4 { // from several goroutines at once
		all.Go(func() {
			for range 5 {
				a, err := s.Decide(client.DecideRequest{ID: "A1", Answer: palyra.AnswerAllow, Digest: "sha256:00"})
				if err != nil || a.Decision.By != "user:alice" || a.Decision.Votes[0].Scope != palyra.ScopeOnce ||
					a.Decision.Votes[0].Signature.Intent.Method != "palyra.v1.ApprovalsService/DecideApproval" {
					t.Errorf("%+v %v", a.Decision, err)
				}
				tape.Write(text("R1", "x"))
			}
		})
	}
	want := int64(1)
	for range 20 {
		if seq := <-read; seq != want {
			t.Errorf("entry %d, want %d", seq, want)
		}
		want++
	}
	tape.Write(finished("R1"))
	all.Wait()
}

func TestRunStreamRefusals(t *testing.T) {
	b := newBench(t)
	b.parts.Tape("R1")
	ag := b.stream(b.agent())
	if _, err := ag.Attach("other", 0); reason(err) != palyra.ReasonNotFound {
		t.Errorf("another's run: %v", err)
	}
	if err := ag.Cancel(); reason(err) != palyra.ReasonMalformedInput {
		t.Errorf("no run: %v", err)
	}
	if _, err := ag.Start(client.RunRequest{Input: "\xff"}); reason(err) != palyra.ReasonMalformedInput {
		t.Errorf("not text: %v", err)
	}
	if _, err := ag.Attach("R1", 0); err != nil { // a refusal does not end the stream
		t.Fatal(err)
	}
	if _, err := ag.Decide(client.DecideRequest{ID: "A1", Answer: palyra.AnswerAllow}); reason(err) != palyra.ReasonAgentMayNotDecide {
		t.Errorf("an agent decides: %v", err)
	} else if e := palyra.AsError(err); e.Code != palyra.Denied || e.Remedy == "" || e.Text == "" {
		t.Errorf("%+v", e)
	}
	keyless := b.stream(b.open(client.Config{Door: client.OperatorDoor}))
	if _, err := keyless.Attach("R1", 0); err != nil { // looking needs no key
		t.Error(err)
	}
	b.parts.Seen()
	if _, err := keyless.Decide(client.DecideRequest{ID: "A1"}); reason(err) != palyra.ReasonSignatureRequired {
		t.Errorf("%v", err)
	}
	if err := keyless.Cancel(); reason(err) != palyra.ReasonSignatureRequired {
		t.Errorf("%v", err)
	}
	if seen := b.parts.Seen(); slices.Contains(seen, "decide A1") {
		t.Errorf("%q", seen)
	}
}

// A stream that is left leaves nothing behind, at either end.
func TestRunStreamCloses(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
	b := newBench(t)
	defer b.stop()
	tape := b.parts.Tape("R1")
	wait, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for name, leave := range map[string]func(*client.RunStream, context.CancelFunc){
		"closed":  func(s *client.RunStream, _ context.CancelFunc) { must(t, s.Close()) },
		"context": func(_ *client.RunStream, cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := b.agent().RunStream(ctx)
		if _, err := s.Attach("R1", 0); err != nil {
			t.Fatal(err)
		}
		must(t, tape.Wait(wait, 1))
		received := make(chan error, 1)
		go func() { _, err := s.Recv(); received <- err }()
		leave(s, cancel)
		if err := <-received; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, tape.Wait(wait, 0))
		if err := s.Input("x"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	unused := b.agent().RunStream(t.Context())
	must(t, unused.Close())
}

func TestRunStreamLost(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, filepath.Join(b.home, "run", "agent.sock"), func() int64 { return -1 })
	c, err := client.Open(client.Config{Socket: p.path})
	must(t, err)
	tape := b.parts.Tape("R1")
	tape.Write(text("R1", "one"))
	s := b.stream(c)
	if _, err := s.Attach("R1", 0); err != nil {
		t.Fatal(err)
	}
	e, err := s.Recv()
	if err != nil || e.Seq != 1 {
		t.Fatalf("%+v %v", e, err)
	}
	p.stop()
	for range 2 {
		if _, err := s.Recv(); reason(err) != client.ReasonConnectionLost {
			t.Errorf("%v (%s)", err, reason(err))
		}
	}
	if err := s.Cancel(); reason(err) != client.ReasonConnectionLost {
		t.Errorf("%v (%s)", err, reason(err))
	}
	gone := b.stream(c)
	if _, err := gone.Attach("R1", 0); reason(err) != client.ReasonNoDaemon {
		t.Errorf("%v (%s)", err, reason(err))
	}
	if _, err := gone.Recv(); reason(err) != client.ReasonNoDaemon {
		t.Errorf("%v (%s)", err, reason(err))
	}
	must(t, p.listen())
	again := b.stream(c)
	if _, err := again.Attach("R1", e.Seq); err != nil {
		t.Fatal(err)
	}
	tape.Write(finished("R1"))
	if e, err := again.Recv(); err != nil || e.Seq != 2 {
		t.Errorf("%+v %v", e, err)
	}
}

// Cut anywhere, a stream says that it was cut, or gives the next entry: never a
// wrong one, never an end that is none.
func TestRunStreamCutAnywhere(t *testing.T) {
	b := newBench(t)
	tape := b.parts.Tape("R1")
	for range 20 {
		tape.Write(text("R1", "some text"))
	}
	tape.Write(finished("R1"))
	var most atomic.Int64
	p := newProxy(t, filepath.Join(b.home, "run", "agent.sock"), most.Load)
	c, err := client.Open(client.Config{Socket: p.path})
	must(t, err)
	whole := false
	for ; !whole && most.Load() < 1<<16; most.Add(37) {
		s := c.RunStream(t.Context())
		_, err := s.Attach("R1", 0)
		for seq := int64(1); err == nil; seq++ {
			var e palyra.TapeEntry
			if e, err = s.Recv(); err == nil && e.Seq != seq {
				t.Errorf("%d bytes: entry %d, want %d", most.Load(), e.Seq, seq)
			}
			whole = whole || e.RunFinished != nil
		}
		if reason(err) != client.ReasonConnectionLost && (!whole || !errors.Is(err, io.EOF)) {
			t.Errorf("%d bytes: %v (%s)", most.Load(), err, reason(err))
		}
		must(t, s.Close())
	}
	if !whole {
		t.Error("never whole")
	}
}
