package sandboxtest

import (
	"bufio"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// How long a neighbour that wakes every 10 ms may be kept waiting: once, and nineteen times out of twenty. The
// promise is 100 ms; five times as much is allowed, because other tests share the machine.
const (
	worstGap = 2 * time.Second
	usualGap = 5 * 100 * time.Millisecond
)

// ticks is a process outside that notices when it is starved.
type ticks struct {
	in  io.Closer
	out *bufio.Reader
	cmd *exec.Cmd
}

func (b *bench) ticker(t *testing.T) *ticks {
	t.Helper()
	cmd := exec.Command(b.tool, "ticker")
	cmd.SysProcAttr = b.who.credential() // no better placed than the program inside
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	k := &ticks{in, bufio.NewReader(out), cmd}
	if line, err := k.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the ticker says %q, %v", line, err)
	}
	return k
}

// steady ends the ticker and checks its gaps.
func (k *ticks) steady(t *testing.T) {
	t.Helper()
	check(t, k.in.Close())
	longest, usual := k.gap(t), k.gap(t)
	t.Logf("the ticker's longest gap: %v, 95 of 100 within %v", longest, usual)
	if longest > worstGap || usual > usualGap || usual < 10*time.Millisecond {
		t.Errorf("the ticker outside was kept waiting %v (at most %v), 95 of 100 times within %v (at most %v)", longest, worstGap, usual,
			usualGap)
	}
}

func (k *ticks) gap(t *testing.T) time.Duration {
	t.Helper()
	line, err := k.out.ReadString('\n')
	check(t, err)
	us, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	check(t, err)
	return time.Duration(us) * time.Microsecond
}
