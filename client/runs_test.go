package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/runs"
)

func TestCallTellsItsOutput(t *testing.T) {
	b := newBench(t)
	b.parts.OnCall = func(_ context.Context, _ palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
		if w.Output == nil {
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, Stdout: "nobody watched"}, nil
		}
		w.Output(palyra.Chunk{Stream: "stdout", Data: []byte("a\x00\xff")})
		w.Output(palyra.Chunk{Stream: "stderr", Offset: 3, Data: []byte("b")})
		return palyra.Outcome{Outcome: palyra.OutcomeFinished}, nil
	}
	var got []palyra.Chunk
	watch := func(e client.CallEvent) {
		if e.Output != nil {
			got = append(got, *e.Output)
		}
	}
	if _, err := b.agent().Call(t.Context(), client.CallRequest{Tool: "x", StreamOutput: true}, watch); err != nil {
		t.Fatal(err)
	}
	same(t, "output", nil, got, []palyra.Chunk{
		{Stream: "stdout", Data: []byte("a\x00\xff")},
		{Stream: "stderr", Offset: 3, Data: []byte("b")},
	})
	out, err := b.agent().Call(t.Context(), client.CallRequest{Tool: "x"}, watch)
	if err != nil || out.Stdout != "nobody watched" || len(got) != 2 {
		t.Errorf("%+v %v", out, err)
	}
}

func TestSendInput(t *testing.T) {
	b := newBench(t)
	var got []palyra.Feed
	b.parts.OnSend = func(_ palyra.CallID, f palyra.Feed) error { got = append(got, f); return nil }
	long := make([]byte, 150<<10)
	for i := range long {
		long[i] = byte(i >> 8)
	}
	must(t, b.agent().SendInput(t.Context(), "mine", palyra.Feed{Data: long, End: true, Signal: "SIGTERM", Rows: 3, Cols: 4}))
	var data []byte
	for i, f := range got {
		data = append(data, f.Data...)
		if last := i == len(got)-1; f.End != last || (f.Signal == "SIGTERM") != last || (f.Rows == 3 && f.Cols == 4) != last {
			t.Errorf("piece %d of %d: %+v", i, len(got), f.End)
		}
	}
	if len(got) != 3 || string(data) != string(long) {
		t.Errorf("%d pieces, %d bytes", len(got), len(data))
	}
	for name, c := range map[string]struct {
		err  error
		want palyra.Reason
	}{
		"another's":    {b.agent().SendInput(t.Context(), "other", palyra.Feed{End: true}), palyra.ReasonNotFound},
		"a person's":   {b.operator().SendInput(t.Context(), "mine", palyra.Feed{End: true}), palyra.ReasonPermission},
		"nothing":      {b.agent().SendInput(t.Context(), "mine", palyra.Feed{}), palyra.ReasonMalformedInput},
		"no signal":    {b.agent().SendInput(t.Context(), "mine", palyra.Feed{Signal: "kill -9"}), palyra.ReasonMalformedInput},
		"bad terminal": {b.agent().SendInput(t.Context(), "mine", palyra.Feed{Rows: -1, Cols: 3}), palyra.ReasonMalformedInput},
	} {
		if reason(c.err) != c.want {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d pieces arrived", len(got))
	}
}

func TestRuns(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	req := client.RunRequest{
		Provider: "scripted", Input: "turns: [<é>]\n", Title: "t", Workspace: "/w", Session: "mine", Key: "k", NoWait: true,
		Budget: palyra.Budget{Calls: 3, WallMS: 4, OutputBytes: 5, Parallel: 6}, Surface: palyra.SurfaceCLI,
	}
	want := runs.StartRequest{
		Principal: "agent:local", Credential: "agent:local", Owner: "user:alice", PeerUID: int64(os.Geteuid()), Surface: palyra.SurfaceAPI,
		Provider: "scripted",
		Input:    "turns: [<é>]\n", Title: "t", Workspace: "/w", Session: "mine", Key: "k", Budget: req.Budget, NoWait: true,
	}
	run, err := b.agent().StartRun(ctx, req)
	if err != nil || run.ID != "R1" || run.Principal != "agent:local" || run.Budget != req.Budget || run.State != palyra.RunPending {
		t.Errorf("%+v %v", run, err)
	}
	same(t, "request", nil, b.parts.Started(), want)
	want.Principal, want.Owner, want.Surface = "user:alice", "", palyra.SurfaceCLI
	if _, err := b.operator().StartRun(ctx, req); err != nil || !b.parts.Who().Signed {
		t.Errorf("%v %+v", err, b.parts.Who())
	}
	want.Credential = b.parts.Who().CredentialID
	same(t, "request", nil, b.parts.Started(), want)
	run, err = b.operator().GetRun(ctx, "other")
	if err != nil || run.Principal != "agent:other" || !run.CreatedAt.Equal(rpctest.At) {
		t.Errorf("%+v %v", run, err)
	}
	page, err := b.operator().Runs(ctx, client.RunFilter{Principal: "agent:x", State: palyra.RunDone, Limit: 2})
	if err != nil || len(page.Runs) != 2 || page.Next != "R" || page.Runs[0].Principal != "agent:x" {
		t.Errorf("%+v %v", page, err)
	}
	page, err = b.agent().Runs(ctx, client.RunFilter{Principal: "agent:other"})
	if err != nil || page.Next != "" || page.Runs[0].Principal != "agent:local" {
		t.Errorf("an agent lists others' runs: %+v %v", page, err)
	}
	b.parts.Seen()
	must(t, b.agent().CancelRun(ctx, "R7"))
	must(t, b.operator().CancelRun(ctx, "other"))
	must(t, b.agent().SendRunInput(ctx, "R7", "go on"))
	got := strings.Join(b.parts.Seen(), "; ")
	if got != "run R7; cancel run R7 agent:local; status; run other; cancel run other user:alice; run R7; input R7 go on" {
		t.Error(got)
	}
}

func TestBadRuns(t *testing.T) {
	b := newBench(t)
	ctx, ag := t.Context(), b.agent()
	for name, c := range map[string]struct {
		req  client.RunRequest
		want palyra.Reason
	}{
		"a huge input":      {client.RunRequest{Input: strings.Repeat("x", 1<<20+1)}, palyra.ReasonInputTooLarge},
		"beyond the wire":   {client.RunRequest{Input: strings.Repeat("x", 8<<20)}, palyra.ReasonInputTooLarge},
		"a huge title":      {client.RunRequest{Title: strings.Repeat("x", 2<<10)}, palyra.ReasonInputTooLarge},
		"a huge workspace":  {client.RunRequest{Workspace: strings.Repeat("x", 8<<10)}, palyra.ReasonInputTooLarge},
		"not text":          {client.RunRequest{Input: "\xff"}, palyra.ReasonMalformedInput},
		"cron":              {client.RunRequest{Surface: palyra.SurfaceCron}, palyra.ReasonMalformedInput},
		"a negative budget": {client.RunRequest{Budget: palyra.Budget{Calls: -1}}, palyra.ReasonMalformedInput},
	} {
		if _, err := ag.StartRun(ctx, c.req); reason(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ag.StartRun(ctx, client.RunRequest{Input: strings.Repeat("<", 1<<20)}); err != nil {
		t.Errorf("the longest input: %v", err)
	}
	none := func(palyra.TapeEntry) error { t.Error("an entry"); return nil }
	for name, c := range map[string]struct {
		err  error
		want palyra.Reason
	}{
		"get":          {second(ag.GetRun(ctx, "none")), palyra.ReasonNotFound},
		"get other":    {second(ag.GetRun(ctx, "other")), palyra.ReasonNotFound},
		"cancel other": {ag.CancelRun(ctx, "other"), palyra.ReasonNotFound},
		"input other":  {ag.SendRunInput(ctx, "other", "x"), palyra.ReasonNotFound},
		"input none":   {ag.SendRunInput(ctx, "R1", ""), palyra.ReasonMalformedInput},
		"input huge":   {ag.SendRunInput(ctx, "R1", strings.Repeat("x", 65<<10)), palyra.ReasonInputTooLarge},
		"attach":       {ag.AttachRun(ctx, "none", 0, none), palyra.ReasonNotFound},
		"attach other": {ag.AttachRun(ctx, "other", 0, none), palyra.ReasonNotFound},
		"attach -1":    {ag.AttachRun(ctx, "R1", -1, none), palyra.ReasonMalformedInput},
		"list -1":      {second(ag.Runs(ctx, client.RunFilter{Limit: -1})), palyra.ReasonMalformedInput},
		"list state":   {second(ag.Runs(ctx, client.RunFilter{State: "tired"})), palyra.ReasonMalformedInput},
		"no signer":    {b.open(client.Config{Door: client.OperatorDoor}).CancelRun(ctx, "R1"), palyra.ReasonSignatureRequired},
	} {
		if reason(c.err) != c.want {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if seen := strings.Join(b.parts.Seen(), " "); strings.Contains(seen, "cancel") || strings.Contains(seen, "input") ||
		strings.Contains(seen, "attach") {
		t.Errorf("reached %s", seen)
	}
}

func second[T any](_ T, err error) error { return err }

func text(run palyra.RunID, s string) palyra.TapeEntry {
	return palyra.TapeEntry{Run: run, ModelText: &palyra.TapeText{Text: s}}
}

func finished(run palyra.RunID) palyra.TapeEntry {
	return palyra.TapeEntry{Run: run, RunFinished: &palyra.TapeRunFinished{State: palyra.RunDone}}
}

// Several follow one run, from different places, each at its own pace.
func TestTwoAttach(t *testing.T) {
	b := newBench(t)
	tape := b.parts.Tape("R1")
	tape.Write(text("R1", "one"))
	type end struct {
		got []int64
		err error
	}
	ends := make(chan end, 2)
	hold := make(chan struct{})
	follow := func(c *client.Client, after int64, wait bool) {
		var e end
		e.err = c.AttachRun(t.Context(), "R1", after, func(entry palyra.TapeEntry) error {
			if wait {
				<-hold // reads nothing more until the other one has read everything
			}
			e.got = append(e.got, entry.Seq)
			return nil
		})
		ends <- e
	}
	go follow(b.agent(), 0, true)
	go follow(b.operator(), 1, false)
	must(t, tape.Wait(t.Context(), 2))
	for i := range 50 {
		tape.Write(text("R1", fmt.Sprint(i)))
	}
	tape.Write(finished("R1"))
	quick := <-ends
	close(hold)
	slow := <-ends
	if quick.err != nil || slow.err != nil || len(quick.got) != 51 || len(slow.got) != 52 || quick.got[0] != 2 || slow.got[51] != 52 {
		t.Errorf("%+v\n%+v", quick, slow)
	}
}

func TestAttachEnds(t *testing.T) {
	b := newBench(t)
	tape := b.parts.Tape("R1")
	tape.Write(text("R1", "one"))
	enough := errors.New("enough")
	if err := b.agent().AttachRun(t.Context(), "R1", 0, func(palyra.TapeEntry) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	// An error that looks like a lost connection is still the caller's own.
	own := palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "mine")
	if err := b.agent().AttachRun(t.Context(), "R1", 0, func(palyra.TapeEntry) error { return own }); !errors.Is(err, own) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := b.agent().AttachRun(ctx, "R1", 0, func(palyra.TapeEntry) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || reason(err) != palyra.ReasonCancelled {
		t.Errorf("%v", err)
	}
	wait, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	must(t, tape.Wait(wait, 0)) // and the daemon knows
	b.stop()
	if err := b.agent().AttachRun(t.Context(), "R1", 0, nil); reason(err) != client.ReasonNoDaemon {
		t.Errorf("%v", err)
	}
}

// proxy stands before a socket and cuts connections after some bytes.
type proxy struct {
	path, to string
	cut      func() int64 // bytes from the daemon that pass; < 0: all

	mu    sync.Mutex
	l     net.Listener
	conns map[net.Conn]bool
	cuts  int
	all   sync.WaitGroup
}

func newProxy(t *testing.T, to string, cut func() int64) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "plyr")
	must(t, err)
	p := &proxy{path: filepath.Join(dir, "s"), to: to, cut: cut, conns: map[net.Conn]bool{}}
	must(t, p.listen())
	t.Cleanup(func() {
		p.stop()
		p.all.Wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *proxy) listen() error {
	l, err := net.Listen("unix", p.path)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.l = l
	p.mu.Unlock()
	p.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.carry(c) })
		}
	})
	return nil
}

// stop drops every connection and takes no more.
func (p *proxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.l.Close()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) carry(c net.Conn) {
	d, err := net.Dial("unix", p.to)
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.conns[c], p.conns[d] = true, true
	most := p.cut()
	p.mu.Unlock()
	p.all.Go(func() { _, _ = io.Copy(d, c); _ = d.Close() })
	var from io.Reader = d
	if most >= 0 {
		from = io.LimitReader(d, most)
	}
	n, _ := io.Copy(c, from)
	_, _ = c.Close(), d.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	delete(p.conns, d)
	if n == most {
		p.cuts++
	}
}

// A connection that is cut anywhere, again and again, costs nothing of the tape:
// every entry comes once and in order.
func TestReattachMissesNothing(t *testing.T) {
	b := newBench(t)
	const entries = 120
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	p := newProxy(t, filepath.Join(b.home, "run", "agent.sock"), func() int64 { return rng.Int64N(2000) })
	c, err := client.Open(client.Config{Socket: p.path})
	must(t, err)
	tape := b.parts.Tape("R1")
	written := 0
	write := func() {
		switch written++; {
		case written <= entries:
			tape.Write(text("R1", strings.Repeat("x", written%400)))
		case written == entries+1:
			tape.Write(finished("R1"))
		}
	}
	for range entries / 2 { // there already; the rest is written as these are read
		write()
	}
	var next int64
	lost := 0
	err = c.AttachRun(t.Context(), "R1", 0, func(e palyra.TapeEntry) error {
		write()
		if next++; e.Seq != next {
			t.Fatalf("entry %d after %d", e.Seq, next-1)
		}
		if want := strings.Repeat("x", int(e.Seq)%400); e.RunFinished == nil && e.ModelText.Text != want {
			t.Errorf("entry %d is damaged", e.Seq)
		}
		return nil
	}, func(after int64, err error) {
		if lost++; after != next || reason(err) != client.ReasonConnectionLost {
			t.Errorf("lost after %d (have %d): %v", after, next, err)
		}
	})
	if err != nil || next != entries+1 {
		t.Errorf("%d entries of %d: %v", next, entries+1, err)
	}
	if lost < 2 {
		t.Errorf("only %d connections were lost", lost)
	}
	t.Logf("%d connections lost", lost)
}

// A daemon that is away for a while is waited for.
func TestReattachAfterARestart(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, filepath.Join(b.home, "run", "operator.sock"), func() int64 { return -1 })
	c, err := client.Open(client.Config{Socket: p.path, Door: client.OperatorDoor})
	must(t, err)
	tape := b.parts.Tape("R1")
	tape.Write(text("R1", "before"))
	var got []int64
	var why []palyra.Reason
	err = c.AttachRun(t.Context(), "R1", 0, func(e palyra.TapeEntry) error {
		got = append(got, e.Seq)
		if e.Seq == 1 {
			p.stop()
			tape.Write(text("R1", "meanwhile"))
			tape.Write(finished("R1"))
		}
		return nil
	}, func(_ int64, err error) {
		if why = append(why, reason(err)); len(why) == 3 {
			must(t, p.listen())
		}
	})
	if err != nil || len(got) != 3 {
		t.Errorf("%v %v", got, err)
	}
	if len(why) != 3 || why[0] != client.ReasonConnectionLost || why[2] != client.ReasonNoDaemon {
		t.Errorf("%v", why)
	}
}

// Waiting for a daemon ends with its context.
func TestReattachGivesUp(t *testing.T) {
	b := newBench(t)
	p := newProxy(t, filepath.Join(b.home, "run", "agent.sock"), func() int64 { return -1 })
	c, err := client.Open(client.Config{Socket: p.path})
	must(t, err)
	b.parts.Tape("R1").Write(text("R1", "one"))
	ctx, cancel := context.WithCancel(t.Context())
	err = c.AttachRun(ctx, "R1", 0, func(palyra.TapeEntry) error { p.stop(); return nil }, func(int64, error) { cancel() })
	if !errors.Is(err, context.Canceled) || palyra.CodeOf(err) != palyra.Expired {
		t.Errorf("%v", err)
	}
}

// However little of an answer arrives, it is said that the connection was lost:
// half a header looks like nonsense to those who read it.
func TestAnswerCutAnywhere(t *testing.T) {
	b := newBench(t)
	var most atomic.Int64
	p := newProxy(t, filepath.Join(b.home, "run", "operator.sock"), most.Load)
	c, err := client.Open(client.Config{Socket: p.path, Door: client.OperatorDoor})
	must(t, err)
	for ; most.Load() < 1<<12; most.Add(3) {
		_, err := c.GetRun(t.Context(), "R1")
		if err == nil {
			return
		}
		if reason(err) != client.ReasonConnectionLost || palyra.CodeOf(err) != palyra.Unavailable {
			t.Errorf("%d bytes: %v (%s)", most.Load(), err, reason(err))
		}
	}
	t.Error("it never arrived whole")
}
