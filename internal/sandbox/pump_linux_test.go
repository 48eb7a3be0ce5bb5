package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/mask"
)

// live makes the plan take its stdin from the caller, and returns the way in.
func (b *box) live() chan<- palyra.Feed {
	b.plan.Stdin = palyra.StdinLive
	return b.followed()
}

func (b *box) followed() chan<- palyra.Feed {
	b.crowd.feed = make(chan palyra.Feed, 16)
	return b.crowd.feed
}

// once calls f when the run is heard to say so.
func (b *box) once(text string, f func()) {
	var mu sync.Mutex // both streams are heard
	var heard strings.Builder
	b.crowd.heard = func(c palyra.Chunk) {
		mu.Lock()
		defer mu.Unlock()
		heard.Write(c.Data)
		if f != nil && strings.Contains(heard.String(), text) {
			f()
			f = nil
		}
	}
}

// failed runs the plan and expects a failure.
func (b *box) failed(ctx context.Context, layer palyra.Layer, reason palyra.Reason, kill, text string) palyra.Result {
	b.t.Helper()
	res := b.runIn(ctx)
	if res.Refusal != nil || res.Failure == nil {
		b.t.Fatalf("refusal %+v, failure %+v", res.Refusal, res.Failure)
	}
	if f := res.Failure; f.Layer != layer || f.Reason != reason || !strings.Contains(f.Text, text) || res.KillReason != palyra.Stop(kill) {
		b.t.Errorf("failed with %+v, kill reason %s", *f, res.KillReason)
	}
	return res
}

func TestBoundStdin(t *testing.T) {
	for name, data := range map[string][]byte{"short": []byte("hello"), "long": bytes.Repeat([]byte("0123456789abcdef"), 1<<16), "empty": {}} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.stdin, b.plan.Stdin = data, string(palyra.SumBytes(data))
			b.plan.Limits.OutputBytes = 8 << 20
			b.program("/bin/cat", "cat")
			res := b.finished()
			if !bytes.Equal(res.Stdout, data) {
				t.Errorf("%d bytes came back of %d", len(res.Stdout), len(data))
			}
			want(t, "bytes in", res.Usage.BytesIn, len(data))
		})
	}
}

func TestNoStdin(t *testing.T) {
	b := newBox(t)
	b.sh("readlink /proc/self/fd/0; cat")
	want(t, "stdin", string(b.finished().Stdout), "/dev/null\n")
}

func TestStdinChanged(t *testing.T) {
	for name, c := range map[string]struct {
		bound string
		data  []byte
	}{
		"other bytes": {string(palyra.SumBytes([]byte("a"))), []byte("b")},
		"none now":    {string(palyra.SumBytes([]byte("a"))), nil},
		"some now":    {"", []byte("b")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.plan.Stdin, b.stdin = c.bound, c.data
			b.refused(palyra.Conflict, palyra.ReasonPlanChanged, "changed since the plan was judged: stdin")
		})
	}
	b := newBox(t)
	b.r.Stdin = func(palyra.Plan) ([]byte, error) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "not base64")
	}
	b.refused(palyra.Invalid, palyra.ReasonMalformedInput, "not base64")
}

func TestAProgramThatDoesNotReadItsStdin(t *testing.T) {
	b := newBox(t)
	b.stdin = make([]byte, 1<<20)
	b.plan.Stdin = string(palyra.SumBytes(b.stdin))
	b.sh("exec 0<&-; echo done")
	want(t, "stdout", string(b.finished().Stdout), "done\n")
}

func TestLiveStdin(t *testing.T) {
	b := newBox(t)
	in := b.live()
	b.sh("echo ready; cat; echo end")
	b.once("ready", func() {
		for _, s := range []string{"a", "", "b\n"} {
			in <- palyra.Feed{Data: []byte(s)}
		}
		in <- palyra.Feed{Data: []byte("c\n"), End: true}
		in <- palyra.Feed{Data: []byte("too late\n"), End: true}
	})
	res := b.finished()
	want(t, "stdout", string(res.Stdout), "ready\nab\nc\nend\n")
	want(t, "bytes in", res.Usage.BytesIn, 5)
}

func TestLiveStdinEndsWithItsCaller(t *testing.T) {
	b := newBox(t)
	in := b.live()
	b.program("/bin/cat", "cat")
	in <- palyra.Feed{Data: []byte("a")}
	close(in)
	want(t, "stdout", string(b.finished().Stdout), "a")
}

func TestLiveStdinOfACallerWhoIsGone(t *testing.T) {
	b := newBox(t)
	b.plan.Stdin = palyra.StdinLive
	if r := b.refused(palyra.Conflict, palyra.ReasonInterrupted, "is gone"); r.Remedy == "" {
		t.Error("no remedy")
	}
}

func TestBytesThatThePlanDoesNotBindStayOut(t *testing.T) {
	b := newBox(t)
	in := b.followed()
	b.stdin = []byte("bound\n")
	b.plan.Stdin = string(palyra.SumBytes(b.stdin))
	in <- palyra.Feed{Data: []byte("unbound\n")}
	in <- palyra.Feed{End: true}
	close(in)
	b.program("/bin/cat", "cat")
	res := b.finished()
	want(t, "stdout", string(res.Stdout), "bound\n")
	want(t, "bytes in", res.Usage.BytesIn, 6)
}

func TestSignals(t *testing.T) {
	for _, name := range []string{"INT", "SIGINT", "SIGUSR1", "HUP", "TERM"} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			in := b.followed()
			short := strings.TrimPrefix(name, "SIG")
			b.sh(fmt.Sprintf("trap 'echo got; exit 0' %s; echo ready; while :; do sleep 0.02; done", short))
			b.once("ready", func() { in <- palyra.Feed{Signal: name} })
			want(t, "stdout", string(b.finished().Stdout), "ready\ngot\n")
		})
	}
}

func TestSignalsThatNobodyMaySend(t *testing.T) {
	b := newBox(t)
	in := b.followed()
	b.sh("trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.02; done")
	b.once("ready", func() {
		for _, name := range []string{"KILL", "STOP", "SIGSTOP", "SIGSEGV", "9", "", "SIGSIGINT", "int"} {
			in <- palyra.Feed{Signal: name}
		}
		in <- palyra.Feed{Signal: "USR1"}
	})
	want(t, "stdout", string(b.finished().Stdout), "ready\ngot\n")
	if n := strings.Count(b.log.String(), "may not send"); n != 7 {
		t.Errorf("%d signals were dropped: %s", n, b.log)
	}
}

// A program that does not read can still be interrupted, and ended.
func TestAFullStdinHoldsNothingUp(t *testing.T) {
	b := newBox(t)
	in := b.live()
	b.sh("trap 'echo got' USR1; echo ready; while :; do sleep 0.02; done")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.once("ready", func() {
		in <- palyra.Feed{Data: make([]byte, 600<<10)} // more than a pipe holds
		in <- palyra.Feed{Signal: "USR1"}
	})
	heard := b.crowd.heard
	b.crowd.heard = func(c palyra.Chunk) {
		heard(c)
		if strings.Contains(string(c.Data), "got") {
			for range 3 { // now more than the queue holds as well
				in <- palyra.Feed{Data: make([]byte, 600<<10)}
			}
			cancel()
		}
	}
	res := b.failed(ctx, palyra.LayerTier, palyra.ReasonCancelled, "cancelled", "was cancelled")
	if n := res.Usage.BytesIn; n <= 0 || n >= 600<<10 {
		t.Errorf("%d bytes went in", n)
	}
}

func TestCancel(t *testing.T) {
	b := newBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.sh("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done")
	b.once("ready", cancel)
	res := b.failed(ctx, palyra.LayerTier, palyra.ReasonCancelled, "cancelled", "was cancelled")
	want(t, "stdout", string(res.Stdout), "ready\nbye\n") // it had its grace
	want(t, "exit code", res.ExitCode, 7)
	want(t, "cancelled, timed out", []bool{res.Cancelled, res.TimedOut}, []bool{true, false})
}

func TestTimeout(t *testing.T) {
	b := newBox(t)
	b.r.Grace = 50 * time.Millisecond
	const wall = 2 * time.Second // the program has to have begun by then
	b.plan.Limits.WallMS = wall.Milliseconds()
	b.sh("trap '' TERM; echo ready; while :; do sleep 0.02; done")
	ctx, cancel := context.WithTimeout(t.Context(), wall)
	defer cancel()
	res := b.failed(ctx, palyra.LayerLimit, palyra.ReasonTimedOut, "wall_clock", "time limit of 2000 ms")
	want(t, "exit code", res.ExitCode, 137)
	want(t, "signal", res.Signal, "SIGKILL")
	want(t, "cancelled, timed out", []bool{res.Cancelled, res.TimedOut}, []bool{false, true})
	if res.Usage.WallMS < wall.Milliseconds()/2 {
		t.Errorf("it took %d ms", res.Usage.WallMS)
	}
}

func TestAProgramThatEndedByItselfIsNotBlamed(t *testing.T) {
	b := newBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.sh("exit 4")
	b.r.Now = func() time.Time { // asked for the last time after the end of the tree
		if len(b.back.started()) > 0 {
			cancel()
		}
		return time.Now()
	}
	res := b.runIn(ctx)
	if res.Failure != nil || res.Cancelled || res.ExitCode != 4 {
		t.Errorf("%+v", res)
	}
}

func TestLimits(t *testing.T) {
	for limit, text := range map[string]string{
		"memory": "ended by its memory limit of 11 bytes", "processes": "ended by its limit of 12 processes",
		"cpu":       "ended by its CPU limit of 13 ms",
		"file_size": "ended by its file size limit of 14 bytes", "novelty": "ended by its novelty limit",
	} {
		t.Run(limit, func(t *testing.T) {
			b := newBox(t)
			b.plan.Limits = palyra.Limits{MemoryBytes: 11, Processes: 12, CPUMS: 13, FileBytes: 14}
			b.back.limit = limit
			b.sh("echo out; kill -KILL $$")
			res := b.failed(t.Context(), palyra.LayerLimit, palyra.ReasonQuotaExceeded, limit, text)
			want(t, "exit code", res.ExitCode, 137)
			want(t, "stdout", string(res.Stdout), "out\n")
			if res.Failure.Code != palyra.Exhausted || res.Failure.Remedy == "" {
				t.Errorf("%+v", res.Failure)
			}
		})
	}
}

func TestACellThatWasLost(t *testing.T) {
	b := newBox(t)
	b.back.lost = errors.New("control socket: detail")
	b.sh("echo out")
	res := b.failed(t.Context(), palyra.LayerTier, palyra.ReasonInterrupted, "cell_lost", "the cell was lost; the run was ended")
	want(t, "stdout", string(res.Stdout), "out\n")
	want(t, "exit code", res.ExitCode, palyra.ExitUnknown)
	want(t, "enforcement", res.Enforcement, palyra.Enforcement{Mode: "none", Mechanisms: []string{}, Limits: map[string]palyra.Hold{}})
	if strings.Contains(res.Failure.Text, "detail") || !strings.Contains(b.log.String(), "detail") {
		t.Errorf("%s; log %s", res.Failure.Text, b.log)
	}
}

func TestTruncatedOutput(t *testing.T) {
	b := newBox(t)
	b.plan.Limits.OutputBytes = 400
	b.sh(`for i in 0 1 2 3 4 5 6 7 8 9; do printf %0100d $i; done; printf %0150d 5 >&2`)
	res := b.finished()
	line := func(i int) string { return fmt.Sprintf("%0100d", i) }
	all := line(0) + line(1) + line(2) + line(3) + line(4) + line(5) + line(6) + line(7) + line(8) + line(9)
	want(t, "stdout", string(res.Stdout), all[:125]+"\n… 750 bytes left out …\n"+all[875:]) // what stderr leaves of the cap
	want(t, "stdout's digest", res.StdoutDigest, palyra.SumBytes([]byte(all)))
	want(t, "stderr's digest", res.StderrDigest, palyra.SumBytes(res.Stderr))
	want(t, "stderr", string(res.Stderr), fmt.Sprintf("%0150d", 5))
	want(t, "truncated", res.Truncated, true)
	want(t, "bytes out", res.Usage.BytesOut, 1150)
	want(t, "heard on stdout", b.crowd.text(t, "stdout"), all) // more than is kept
	want(t, "heard on stderr", b.crowd.text(t, "stderr"), fmt.Sprintf("%0150d", 5))
}

// As many bytes as the cap names are kept in full, however the streams share them;
// one more is cut, and the digests are of everything in any case.
func TestTheCapIsKeptInFull(t *testing.T) {
	for _, c := range []struct {
		out, err int
		cut      bool
	}{{1 << 20, 0, false}, {0, 1 << 20, false}, {1<<20 - 77, 77, false}, {1<<20 + 1, 0, true}, {1 << 20, 1, true}} {
		b := newBox(t)
		b.plan.Limits.OutputBytes = 1 << 20
		b.sh(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a; head -c %d /dev/zero | tr '\\0' b >&2", c.out, c.err))
		res := b.finished()
		out, errs := bytes.Repeat([]byte("a"), c.out), bytes.Repeat([]byte("b"), c.err)
		want(t, "truncated", res.Truncated, c.cut)
		want(t, "kept in full", bytes.Equal(res.Stdout, out) && bytes.Equal(res.Stderr, errs), !c.cut)
		want(t, "stdout's digest", res.StdoutDigest, palyra.SumBytes(out))
		want(t, "stderr's digest", res.StderrDigest, palyra.SumBytes(errs))
	}
}

func TestOutputStaysBytes(t *testing.T) {
	b := newBox(t)
	b.sh(`printf '\377\376\000\200'`)
	want(t, "stdout", []byte(b.finished().Stdout), []byte("\xff\xfe\x00\x80"))
}

func TestLargeOutputIsCountedToTheByte(t *testing.T) {
	b := newBox(t)
	b.plan.Limits.OutputBytes = 1 << 20
	b.sh("head -c 67108865 /dev/zero; head -c 1000003 /dev/zero >&2")
	res := b.finished()
	want(t, "bytes out", res.Usage.BytesOut, 67108865+1000003)
	want(t, "truncated", res.Truncated, true)
	if !strings.Contains(string(res.Stdout), fmt.Sprintf("\n… %d bytes left out …\n", 67108865-1<<19)) {
		t.Error("the marker does not say how much was left out")
	}
}

func TestEmittedBytes(t *testing.T) {
	b := newBox(t)
	b.plan.Limits.EmittedBytes = 100_000
	b.sh("trap '' TERM; yes")
	res := b.failed(t.Context(), palyra.LayerLimit, palyra.ReasonQuotaExceeded, "output", "limit of 100000 printed bytes")
	if res.Usage.BytesOut <= 100_000 || res.Signal != "SIGKILL" {
		t.Errorf("%d bytes, signal %s", res.Usage.BytesOut, res.Signal)
	}
}

func TestEmittedBytesCountBothStreams(t *testing.T) {
	b := newBox(t)
	b.plan.Limits.EmittedBytes = 20
	b.sh("printf 0123456789; printf 0123456789 >&2")
	want(t, "bytes out", b.finished().Usage.BytesOut, 20) // not over it
	b.back.slow = true
	b.sh("printf 0123456789; printf 0123456789- >&2")
	b.failed(t.Context(), palyra.LayerLimit, palyra.ReasonQuotaExceeded, "output", "20 printed bytes") // though it ended by itself
}

// Whoever follows slowly slows the program, and misses nothing.
func TestSlowStreams(t *testing.T) {
	b := newBox(t)
	const n = 3 << 20
	b.plan.Limits.OutputBytes = 4 * n
	slow := make(chan struct{})
	b.crowd.heard = func(palyra.Chunk) { slow <- struct{}{} }
	done := make(chan palyra.Result)
	b.sh(fmt.Sprintf("head -c %d /dev/urandom", n))
	g, c := b.confirmed()
	go func() { done <- b.r.Run(t.Context(), g, c) }()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		<-tick.C
		select {
		case <-slow:
		case res := <-done:
			want(t, "bytes out", res.Usage.BytesOut, n)
			if heard := b.crowd.text(t, "stdout"); heard != string(res.Stdout) || len(heard) != n || res.Truncated {
				t.Errorf("%d bytes heard, %d delivered", len(heard), len(res.Stdout))
			}
			return
		}
	}
}

func TestChunksAreTheListenersToKeep(t *testing.T) {
	b := newBox(t)
	b.crowd.heard = func(c palyra.Chunk) { clear(c.Data) }
	b.sh("printf 0123456789")
	want(t, "stdout", string(b.finished().Stdout), "0123456789")
}

func TestTerminal(t *testing.T) {
	b := newBox(t)
	b.plan.Terminal = true
	b.sh(`test -t 0 && test -t 1 && test -t 2 && test -O "$(tty)" && echo tty; stty size; echo $TERM; echo err >&2; exit 5`)
	res := b.finished()
	want(t, "stdout", string(res.Stdout), "tty\r\n24 80\r\nxterm-256color\r\nerr\r\n")
	want(t, "stderr", string(res.Stderr), "")
	want(t, "exit code", res.ExitCode, 5)
	want(t, "heard", b.crowd.text(t, "stdout"), string(res.Stdout))
}

func TestTerminalSize(t *testing.T) {
	for in, out := range map[[2]int]string{{50, 132}: "50 132\r\n", {0, 80}: "24 80\r\n", {-1, 5}: "24 80\r\n", {1 << 20, 5}: "24 80\r\n"} {
		b := newBox(t)
		b.plan.Terminal = true
		b.size = func(palyra.Plan) (int, int) { return in[0], in[1] }
		b.sh("stty size")
		want(t, fmt.Sprint(in), string(b.finished().Stdout), out)
	}
}

func TestTerminalIsFed(t *testing.T) {
	for name, c := range map[string]struct{ data, out string }{
		"whole lines": {"a\nb\n", "ready\r\na\r\nb\r\nend\r\n"},
		"half a line": {"a\nb", "ready\r\na\r\nbend\r\n"},
		"nothing":     {"", "ready\r\nend\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			in := b.live()
			b.plan.Terminal = true
			b.sh("stty -echo; echo ready; cat; echo end")
			b.once("ready", func() {
				in <- palyra.Feed{Data: []byte(c.data)}
				in <- palyra.Feed{Rows: 10, Cols: 20}
				in <- palyra.Feed{Rows: 10}
				in <- palyra.Feed{Rows: 10, Cols: 1 << 16}
				in <- palyra.Feed{End: true}
			})
			res := b.finished()
			want(t, "stdout", string(res.Stdout), c.out)
			want(t, "bytes in", res.Usage.BytesIn, len(c.data))
			want(t, "sizes", b.back.sizes, [][2]int{{10, 20}})
		})
	}
}

func TestTerminalThatNobodyFeeds(t *testing.T) {
	b := newBox(t)
	in := b.followed()
	b.plan.Terminal = true
	b.sh("stty -echo; trap 'echo signalled; exit 0' USR1; echo ready; while :; do sleep 0.02; done")
	b.once("ready", func() { in <- palyra.Feed{Data: []byte("unbound\n")}; in <- palyra.Feed{Signal: "USR1"} })
	res := b.finished()
	if out := string(res.Stdout); !strings.HasSuffix(out, "signalled\r\n") {
		t.Errorf("%q", out)
	}
	want(t, "bytes in", res.Usage.BytesIn, 0)
}

// Who feeds faster than the program reads waits: what is queued is bounded.
func TestFeedingIsHeldBack(t *testing.T) {
	b := newBox(t)
	in := make(chan palyra.Feed)
	b.crowd.feed, b.plan.Stdin = in, palyra.StdinLive
	b.sh("echo ready; while :; do sleep 0.02; done")
	ctx, cancel := context.WithCancel(t.Context())
	ready, taken := make(chan struct{}), make(chan int)
	b.once("ready", func() { close(ready) })
	const chunk = 128 << 10
	go func() {
		defer cancel()
		<-ready
		n := 0
		for held := false; !held && n < 100; {
			wait := 500 * time.Millisecond
			if n*chunk < feedMost { // there is room: whoever is not let go on is stuck
				wait = time.Minute
			}
			select {
			case in <- palyra.Feed{Data: make([]byte, chunk)}:
				n++
			case <-time.After(wait):
				held = true
			}
		}
		taken <- n
	}()
	go func() { _ = b.failed(ctx, palyra.LayerTier, palyra.ReasonCancelled, "cancelled", ""); close(taken) }()
	if n := <-taken; n*chunk < feedMost || n*chunk > feedMost+pipeSize+2*chunk {
		t.Errorf("%d bytes were taken", n*chunk)
	}
	<-taken
}

func TestTerminalWithBoundStdin(t *testing.T) {
	b := newBox(t)
	b.stdin = []byte("bound\n")
	b.plan.Stdin, b.plan.Terminal = string(palyra.SumBytes(b.stdin)), true
	b.program("/bin/cat", "cat")
	if out := string(b.finished().Stdout); !strings.HasSuffix(out, "bound\r\n") {
		t.Errorf("%q", out)
	}
}

func TestResizeWithoutATerminal(t *testing.T) {
	b := newBox(t)
	in := b.followed()
	in <- palyra.Feed{Rows: 10, Cols: 20}
	close(in)
	b.finished()
	want(t, "sizes", b.back.sizes, [][2]int(nil))
}

// Descriptors run out at every step of a launch in turn. What fails is refused
// and leaves nothing open; a room that could not be removed is for Recover.
func TestDescriptorsRunOut(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		b := newBox(t)
		b.plan.Terminal = terminal
		b.sealed("mine", echo(t), "x")
		g, c := b.confirmed()
		if res := b.r.Run(t.Context(), g, c); res.Refusal != nil { // the poller and the like are open from here on
			t.Fatal(res.Refusal)
		}
		before, refused, ran := descriptors(t), 0, 0
		for room := 0; ran == 0; room++ {
			restore := scarce(t, room)
			res := b.r.Run(t.Context(), g, c)
			b.swept()
			restore()
			if res.Refusal != nil {
				refused++
			} else {
				ran++
			}
			b.ok(b.r.Recover(t.Context()))
			if left, err := os.ReadDir(b.dir); err != nil || len(left) > 0 {
				t.Errorf("with %d descriptors: %v stays, %v", room, left, err)
			}
		}
		if after := descriptors(t); len(after) > len(before) || refused < 5 {
			t.Errorf("%d were refused; open before %v, after %v", refused, before, after)
		}
	}
}

// scarce leaves the process so many descriptors more.
func scarce(t *testing.T, more int) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	var next []*os.File // the lowest free numbers
	for range more + 1 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		next = append(next, f)
	}
	limit := uint64(next[more].Fd())
	closeAll(next...)
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkRunGiB runs a program that prints a gigabyte; its peer is the same
// into /dev/null.
func BenchmarkRunGiB(b *testing.B) {
	const gib = 1 << 30
	for name, command := range map[string]string{
		"captured":  "head -c 1073741824 /dev/zero",
		"discarded": "head -c 1073741824 /dev/zero >/dev/null",
	} {
		b.Run(name, func(b *testing.B) {
			bx := newBox(b)
			bx.sh(command)
			g, c := bx.confirmed()
			b.ReportAllocs()
			b.SetBytes(gib)
			for b.Loop() {
				if res := bx.r.Run(b.Context(), g, c); res.Refusal != nil || res.ExitCode != 0 {
					b.Fatalf("%+v", res.Refusal)
				}
			}
		})
	}
}

// BenchmarkRun shows what everything around a program costs; its peer is the same
// program without it.
func BenchmarkRun(b *testing.B) {
	b.Run("run", func(b *testing.B) {
		bx := newBox(b)
		bx.program("/bin/true", "true")
		g, c := bx.confirmed()
		for b.Loop() {
			if res := bx.r.Run(b.Context(), g, c); res.Refusal != nil || res.ExitCode != 0 {
				b.Fatalf("%+v", res.Refusal)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Values of secrets do not come out of a run, also between two writes; what is delivered, streamed and signed is the same.
func TestKnownValuesAreMasked(t *testing.T) {
	b := newBox(t)
	b.r.Mask = new(mask.Masker)
	b.r.Mask.Set(func(yield func(string, []byte) bool) { yield("token", []byte("the value of a token")) })
	b.sh("printf 'it is the val'; printf x >&2; sleep 0.1; printf 'ue of a token'; printf 'the value of a tok'; " +
		"printf 'the value of a token\n' >&2")
	res := b.finished()
	want(t, "stdout", string(res.Stdout), "it is [secret token]the value of a tok")
	want(t, "stderr", string(res.Stderr), "x[secret token]\n")
	want(t, "its digest", res.StdoutDigest, palyra.SumBytes(res.Stdout))
	want(t, "what was streamed", b.crowd.text(t, "stdout"), string(res.Stdout))
	want(t, "bytes out", res.Usage.BytesOut, int64(len("it is the value of a tokenthe value of a tokxthe value of a token\n")))
}
