package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/wasm"
	"palyra/internal/wasm/engine"
	"palyra/internal/wasm/wire"
)

// liar starts workers that say what a test has them say.
type liar struct {
	talk func(in *bufio.Reader, out *os.File)
}

func (liar) Ready() error { return nil }

// Start implements engine.Starter.
func (l liar) Start(context.Context, int64) (*engine.Process, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.talk(bufio.NewReader(theirIn), theirOut)
		_ = theirOut.Close()
		_ = theirIn.Close()
	}()
	return &engine.Process{
		In: in, Out: out, Done: done, Limit: func() string { return "" },
		Kill: func(string) { _ = in.Close(); _ = out.Close() },
	}, nil
}

// polite answers until the run as a worker does.
func polite(in *bufio.Reader, out *os.File) bool {
	_ = wire.Write(out, wire.KindHello, wire.Hello{Version: wire.Version, Runtime: "wasmtime 0"})
	f, err := wire.Read(in, 1<<30)
	if err != nil {
		return false
	}
	if f.Kind == wire.KindCompile {
		_ = wire.Write(out, wire.KindCompiled, nil, []byte("code"))
		return false
	}
	_ = wire.Write(out, wire.KindLoaded, nil)
	_, err = wire.Read(in, 1<<30)
	return err == nil
}

// TestWorkersThatLie: whatever a worker says, its invocation ends with a name, soon, and with nothing that was not granted.
func TestWorkersThatLie(t *testing.T) {
	t.Parallel()
	binary := []byte("\x00asm")
	m := wasm.Module{Digest: palyra.SumBytes(binary), Bytes: func() ([]byte, error) { return binary, nil }}
	done := func(d wire.Done, body ...[]byte) func(*bufio.Reader, *os.File) {
		return func(in *bufio.Reader, out *os.File) {
			if polite(in, out) {
				_ = wire.Write(out, wire.KindDone, d, body...)
				_, _ = wire.Read(in, 0)
			}
		}
	}
	said := func(b []byte) func(*bufio.Reader, *os.File) {
		return func(in *bufio.Reader, out *os.File) {
			if polite(in, out) {
				_, _ = out.Write(b)
				_, _ = wire.Read(in, 0)
			}
		}
	}
	asks := func(a wire.Ask, then func(wire.Answer) wire.Done, parts ...[]byte) func(*bufio.Reader, *os.File) {
		return func(in *bufio.Reader, out *os.File) {
			if !polite(in, out) {
				return
			}
			_ = wire.Write(out, wire.KindAsk, a, parts...)
			var answer wire.Answer
			if f, err := wire.Read(in, 1<<30); err != nil || f.As(wire.KindAnswer, &answer) != nil {
				return
			}
			_ = wire.Write(out, wire.KindDone, then(answer), []byte("{}"))
			_, _ = wire.Read(in, 0)
		}
	}
	fine := func(wire.Answer) wire.Done { return wire.Done{Output: 2} }
	for name, c := range map[string]struct {
		talk func(*bufio.Reader, *os.File)
		want palyra.Reason
	}{
		"no hello": {func(*bufio.Reader, *os.File) {}, wasm.ReasonWorkerDied},
		"another hello": {
			func(_ *bufio.Reader, out *os.File) { _ = wire.Write(out, wire.KindHello, wire.Hello{Version: 99}) }, wasm.ReasonNoRuntime,
		},
		"noise":               {func(_ *bufio.Reader, out *os.File) { _, _ = out.Write(bytes.Repeat([]byte{0xff}, 100)) }, wasm.ReasonWorkerLied},
		"ends at the run":     {func(in *bufio.Reader, out *os.File) { polite(in, out) }, wasm.ReasonWorkerDied},
		"more fuel than all":  {done(wire.Done{Fuel: 1 << 63}), wasm.ReasonWorkerLied},
		"more memory":         {done(wire.Done{Memory: 1 << 50}), wasm.ReasonWorkerLied},
		"more output":         {done(wire.Done{Output: 5}, []byte("{}")), wasm.ReasonWorkerLied},
		"less than no output": {done(wire.Done{Output: -5}, []byte("{}")), wasm.ReasonWorkerLied},
		"an unknown reason":   {done(wire.Done{Reason: "all_is_well"}), wasm.ReasonWorkerLied},
		"the daemon's reason": {done(wire.Done{Reason: "permission_denied"}), wasm.ReasonWorkerLied},
		"a huge frame":        {said(append([]byte{'d', 0, 0, 0, 2}, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0)), wasm.ReasonWorkerLied},
		"a huge head":         {said(append([]byte{'d', 0x7f, 0, 0, 2}, 0, 0, 0, 0, 0, 0, 0, 0)), wasm.ReasonWorkerLied},
		"an unknown member":   {said(append([]byte{'d', 0, 0, 0, 7}, "\x00\x00\x00\x00\x00\x00\x00\x00{\"x\":1}"...)), wasm.ReasonWorkerLied},
		"another kind":        {said(append([]byte{'C', 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0)), wasm.ReasonWorkerLied},
		"parts that are not":  {asks(wire.Ask{Function: "log", Parts: []int{5, 5}}, fine), wasm.ReasonWorkerLied},
		"no such function":    {asks(wire.Ask{Function: "rm"}, fine), wasm.ReasonTrap},
		"a guessed handle, and then as if nothing": {asks(wire.Ask{Function: "clock", Handle: 7}, fine), wasm.ReasonHandle},
		"a trap that it passes over": {
			asks(wire.Ask{Function: "kv_get", Handle: 7, Parts: []int{1}}, func(a wire.Answer) wire.Done {
				if a.Trap != string(wasm.ReasonHandle) {
					return wire.Done{Reason: "not trapped"}
				}
				return wire.Done{Output: 2}
			}, []byte("k")), wasm.ReasonHandle,
		},
		"says nothing": {func(in *bufio.Reader, out *os.File) {
			if polite(in, out) {
				_, _ = wire.Read(in, 0)
			}
		}, wasm.ReasonStalled},
		"half a frame": {func(in *bufio.Reader, out *os.File) {
			if polite(in, out) {
				_, _ = out.Write([]byte{'d', 0, 0})
				_, _ = wire.Read(in, 0)
			}
		}, wasm.ReasonStalled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := engine.New(engine.Config{Starter: liar{c.talk}, Grace: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			r, err := e.Run(t.Context(), wasm.Invocation{
				Module: m, Kind: wasm.Export, Function: "run", Input: []byte("{}"), Limits: wasm.Limits{Deadline: 200 * time.Millisecond},
			})
			got := palyra.AsError(err)
			if err == nil || got.Reason != c.want || got.Remedy == "" {
				t.Errorf("%v %q; want %s", got.Reason, got.Text, c.want)
			}
			if r.Output != nil || strings.Contains(got.Text, "all_is_well") {
				t.Errorf("%+v", r)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
