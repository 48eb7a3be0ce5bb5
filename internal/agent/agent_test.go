package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"palyra"
	"palyra/internal/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRun is a host that notes what it is asked, and checks that calls are
// numbered in their order.
type fakeRun struct {
	t        *testing.T
	parallel int64
	call     func(ctx context.Context, turn, index int64, c run.ToolCall) (palyra.Outcome, error)
	inputs   map[int64][]string

	earlier []run.KeptTurn

	mu    sync.Mutex
	notes []string
	now   int // calls under way
	most  int
	kept  map[int64][]byte
	cost  palyra.Tokens
}

func (f *fakeRun) Kept(_ context.Context, turn int64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept[turn], nil
}

func (f *fakeRun) Keep(_ context.Context, turn int64, body []byte, cost palyra.Tokens) error {
	f.note("keep %d", turn)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		f.kept = map[int64][]byte{}
	}
	f.kept[turn] = body
	f.cost.InputTokens += cost.InputTokens
	f.cost.OutputTokens += cost.OutputTokens
	return nil
}

func (f *fakeRun) Earlier(context.Context, int) ([]run.KeptTurn, error) { return f.earlier, nil }

func (f *fakeRun) Anew(_ context.Context, turn int64) error {
	f.note("anew %d", turn)
	return nil
}

func (f *fakeRun) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

func (f *fakeRun) Run() palyra.Run {
	return palyra.Run{ID: "R", Budget: palyra.Budget{Parallel: f.parallel}}
}

func (f *fakeRun) Inputs(_ context.Context, turn int64) ([]string, error) { return f.inputs[turn], nil }

func (f *fakeRun) Text(_ context.Context, turn int64, text string, done bool) error {
	f.note("say %d %s %t", turn, text, done)
	return nil
}

func (f *fakeRun) Call(ctx context.Context, turn, index int64, c run.ToolCall) (palyra.Outcome, error) {
	f.mu.Lock()
	f.now++
	f.most = max(f.most, f.now)
	f.notes = append(f.notes, fmt.Sprintf("call %d/%d %s", turn, index, c.Tool))
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	if f.call != nil {
		return f.call(ctx, turn, index, c)
	}
	return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: palyra.CallID(fmt.Sprint(turn, "/", index))}, nil
}

// readers are tools whose name begins with "read".
type readers struct{}

func (readers) ReadOnly(tool palyra.ToolName) bool { return strings.HasPrefix(string(tool), "read") }

func (readers) List() []palyra.Tool {
	return []palyra.Tool{
		{Name: "read.it", Description: "reads", InputSchema: json.RawMessage(`{"type":"object"}`)},
		{Name: "write.it", Description: "writes", InputSchema: json.RawMessage(`{"type":"object"}`)},
	}
}

// turns is a provider that gives these turns and keeps what it was shown.
type turns struct {
	list  []Turn
	err   error
	shown []Transcript
}

func (p *turns) Next(_ context.Context, t Transcript) (Turn, error) {
	p.shown = append(p.shown, t)
	if int(t.Turn) > len(p.list) {
		return Turn{Done: true}, p.err
	}
	return p.list[t.Turn-1], nil
}

func tools(names ...string) (calls []ToolCall) {
	for _, n := range names {
		calls = append(calls, ToolCall{Tool: palyra.ToolName(n), Arguments: json.RawMessage(`{}`)})
	}
	return calls
}

func loop() *Loop { return &Loop{Config{Tools: readers{}}} }

func TestTurnsInOrder(t *testing.T) {
	h := &fakeRun{t: t, parallel: 1, inputs: map[int64][]string{2: {"left"}}}
	p := &turns{list: []Turn{{Text: "one", Calls: tools("write", "read")}, {Calls: tools("read")}, {Text: "bye", Done: true}}}
	if err := loop().drive(t.Context(), h, p); err != nil {
		t.Fatal(err)
	}
	want := []string{"say 1 one true", "call 1/1 write", "call 1/2 read", "call 2/1 read", "say 3 bye true"}
	if !slices.Equal(h.notes, want) {
		t.Errorf("%q, want %q", h.notes, want)
	}
	if len(p.shown) != 3 || !slices.Equal(p.shown[1].Inputs, []string{"left"}) || !slices.Equal(p.shown[2].Past[1].Inputs, []string{"left"}) {
		t.Errorf("%+v", p.shown)
	}
	if m := p.shown[1].Past[0].Calls; len(m) != 2 || m[1].Outcome.CallID != "1/2" || m[1].Call.Tool != "read" {
		t.Errorf("%+v", m)
	}
}

// Two calls that wait for each other end only when they are made at once.
func TestReadsAreMadeAtOnce(t *testing.T) {
	var meet sync.WaitGroup
	meet.Add(2)
	h := &fakeRun{t: t, parallel: 2, call: func(context.Context, int64, int64, run.ToolCall) (palyra.Outcome, error) {
		meet.Done()
		meet.Wait()
		return palyra.Outcome{}, nil
	}}
	if err := loop().drive(t.Context(), h, &turns{list: []Turn{{Calls: tools("read a", "read b"), Done: true}}}); err != nil {
		t.Fatal(err)
	}
}

// Whatever else stands beside them, writes are made alone and in order, and no
// more reads at once than the run may.
func TestWritesAreMadeAlone(t *testing.T) {
	h := &fakeRun{t: t, parallel: 3}
	writing := false
	var last int64
	h.call = func(_ context.Context, _, index int64, c run.ToolCall) (palyra.Outcome, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if writing {
			t.Errorf("call %d is made beside a write", index)
		}
		if c.Tool != "write" {
			return palyra.Outcome{}, nil
		}
		if h.now != 1 || index < last {
			t.Errorf("write %d is one of %d, after %d", index, h.now, last)
		}
		writing, last = true, index
		h.mu.Unlock()
		for range 100 {
			runtime.Gosched() // the others had their chance
		}
		h.mu.Lock()
		writing = false
		return palyra.Outcome{}, nil
	}
	names := []string{"write", "write", "read", "read", "read", "read", "read", "read", "write", "read", "write", "read", "read", "write"}
	if err := loop().drive(t.Context(), h, &turns{list: []Turn{{Calls: tools(names...), Done: true}}}); err != nil {
		t.Fatal(err)
	}
	if len(h.notes) != len(names) || h.most > 3 {
		t.Errorf("%d calls, %d at once", len(h.notes), h.most)
	}
}

func TestTheWidthOfABatch(t *testing.T) {
	for _, width := range []int{1, 2, 5} {
		started := make(chan struct{}, 20)
		free := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- spread(t.Context(), 6, width, func(context.Context, int) error {
				started <- struct{}{}
				<-free
				return nil
			})
		}()
		for range width {
			<-started
		}
		if len(started) != 0 {
			t.Errorf("more than %d at once", width)
		}
		close(free)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(started) != 6-width {
			t.Errorf("%d more calls", len(started))
		}
	}
}

var errBroken = palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "broken")

// One error ends the batch: its own error comes out, not that of those it left.
func TestAnErrorEndsTheBatch(t *testing.T) {
	began := make(chan struct{})
	h := &fakeRun{t: t, parallel: 2, call: func(ctx context.Context, _, index int64, _ run.ToolCall) (palyra.Outcome, error) {
		if index == 1 {
			close(began)
			<-ctx.Done() // left
			return palyra.Outcome{}, ctx.Err()
		}
		<-began
		return palyra.Outcome{}, errBroken
	}}
	err := loop().drive(t.Context(), h, &turns{list: []Turn{{Calls: tools("read", "read", "read", "write"), Done: true}}})
	if !errors.Is(err, errBroken) || len(h.notes) > 3 {
		t.Errorf("%v after %q", err, h.notes)
	}
}

func TestARefusalIsNotTheEnd(t *testing.T) {
	h := &fakeRun{t: t, parallel: 1, call: func(_ context.Context, turn, _ int64, _ run.ToolCall) (palyra.Outcome, error) {
		return palyra.Outcome{Outcome: palyra.OutcomeRefused, Reason: "no"}, nil
	}}
	p := &turns{list: []Turn{{Calls: tools("write")}, {Calls: tools("write")}}}
	if err := loop().drive(t.Context(), h, p); err != nil {
		t.Fatal(err)
	}
	if p.shown[1].Past[0].Calls[0].Outcome.Reason != "no" || len(h.notes) != 2 {
		t.Errorf("%+v", p.shown)
	}
}

func TestACheckEndsTheRun(t *testing.T) {
	h := &fakeRun{t: t, parallel: 4}
	calls := tools("write", "write", "write")
	calls[1].Check = func(palyra.Outcome) error { return errBroken }
	if err := loop().drive(t.Context(), h, &turns{list: []Turn{{Calls: calls}, {Text: "more"}}}); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if len(h.notes) != 2 {
		t.Errorf("it went on: %q", h.notes)
	}
}

func TestBadProviders(t *testing.T) {
	cases := map[string]struct {
		p      Provider
		reason palyra.Reason
	}{
		"an error":       {&turns{err: errBroken}, palyra.ReasonDiskFull},
		"an empty turn":  {&turns{list: []Turn{{}}}, palyra.ReasonMalformedInput},
		"too many calls": {&turns{list: []Turn{{Calls: make([]ToolCall, maxCalls+1)}}}, palyra.ReasonMalformedInput},
		"endless":        {endless{}, palyra.ReasonBudgetSpent},
	}
	for name, c := range cases {
		err := loop().drive(t.Context(), &fakeRun{t: t}, c.p)
		if palyra.AsError(err).Reason != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type endless struct{}

func (endless) Next(context.Context, Transcript) (Turn, error) { return Turn{Text: "on and on"}, nil }

// When the run is ended the reason is the run's, not what the provider made of it.
func TestTheRunsReasonComesFirst(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	if err := loop().drive(ctx, &fakeRun{t: t}, &turns{err: errors.New("http: canceled")}); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

func TestTranscriptIsBounded(t *testing.T) {
	big := strings.Repeat("x", maxField)
	var tr Transcript
	for i := range 20 {
		tr.Turn++
		tr.add(Past{Text: fmt.Sprint(i), Calls: []Made{{
			Call: ToolCall{Arguments: json.RawMessage(`"` + big + `"`), Check: func(palyra.Outcome) error { return nil }},
			Outcome: palyra.Outcome{
				Stdout: big + "more", StderrB64: big + "more", Output: json.RawMessage(`"` + big + `"`), Attestation: &palyra.Envelope{},
			},
		}}})
	}
	size := 0
	for _, p := range tr.Past {
		size += p.size()
	}
	if size > maxTranscript || len(tr.Past) == 0 || tr.Dropped+int64(len(tr.Past)) != 20 || tr.Past[len(tr.Past)-1].Text != "19" {
		t.Errorf("%d bytes in %d turns, %d dropped", size, len(tr.Past), tr.Dropped)
	}
	m := tr.Past[0].Calls[0]
	if m.Outcome.Attestation != nil || !m.Outcome.Truncated || len(m.Outcome.Stdout) > maxField || m.Outcome.StderrB64 != "" ||
		m.Call.Check != nil ||
		string(m.Call.Arguments) != "null" || string(m.Outcome.Output) != "null" {
		t.Errorf("%d bytes of stdout", len(m.Outcome.Stdout))
	}
	huge := Past{Text: strings.Repeat("x", maxTranscript+1)}
	if tr.add(huge); len(tr.Past) != 1 { // the last turn is always there
		t.Errorf("%d turns", len(tr.Past))
	}
}

type titled struct{ turns }

func (*titled) Title() string { return "A title" }

func (*titled) Listens() bool { return true }

func TestAccept(t *testing.T) {
	l, err := New(Config{Tools: readers{}, Providers: map[string]Open{
		"good": func([]byte) (Provider, error) { return &titled{}, nil },
		"bad":  func([]byte) (Provider, error) { return nil, errBroken },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := l.Accept(palyra.Run{Provider: "good"}, nil); err != nil || a.Title != "A title" || !a.Listens || a.Drive == nil {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := l.Accept(palyra.Run{Provider: "bad"}, nil); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	_, err = l.Accept(palyra.Run{Provider: "none"}, nil)
	if e := palyra.AsError(err); e.Code != palyra.NotFound || !strings.Contains(e.Remedy, "bad, good") {
		t.Errorf("%v", err)
	}
	for _, c := range []Config{{}, {Tools: readers{}}, {Providers: l.Providers}} {
		if _, err := New(c); err == nil {
			t.Error("an incomplete config was taken")
		}
	}
}
