package serve

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"palyra"
)

const (
	deadline = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"context deadline exceeded"}}` + "\n"
	timedOut = `{"method":"notifications/cancelled","params":{"requestId":3,"reason":"McpError: MCP error -32001: Request timed out"}}` + "\n"
	meant    = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"the person changed their mind"}}` + "\n"
	other    = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"text":"notifications/cancelled timed out"}}}` + "\n"
)

func through(t testing.TB, in string) string {
	t.Helper()
	r := strings.NewReader(in)
	out, err := io.ReadAll(&patient{in: r, lines: bufio.NewReaderSize(r, maxCancel), owed: newDebts(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestPatience(t *testing.T) {
	long := strings.Repeat("x", 3*maxCancel) + timedOut // a part of a long line is no message
	in := other + deadline + meant + timedOut + long + "last"
	if got, want := through(t, in), other+meant+long+"last"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzPatience: nothing is lost but whole lines that are such cancels.
func FuzzPatience(f *testing.F) {
	for _, s := range []string{"", deadline, timedOut + meant, other, strings.Repeat("y", maxCancel) + "\n" + deadline} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var want bytes.Buffer
		for _, line := range strings.SplitAfter(in, "\n") {
			if !strings.HasSuffix(line, "\n") || len(line) > maxCancel || !gaveUp([]byte(line)) {
				want.WriteString(line)
			}
		}
		if got := through(t, in); got != want.String() {
			t.Fatalf("%q became %q", in, got)
		}
	})
}

// FuzzBounded: what a model reads is bounded and text.
func FuzzBounded(f *testing.F) {
	f.Add("short", 1)
	f.Add("ü€😀", 20000)
	f.Fuzz(func(t *testing.T, s string, n int) {
		s = strings.ToValidUTF8(strings.Repeat(s, max(0, min(n, (1<<20)/(len(s)+1)))), "")
		got := outcomeText(palyra.Outcome{Outcome: palyra.OutcomeFinished, Stdout: s, Stderr: s, CallID: "C"}, codexRoom)
		total := len(got.body)
		for _, n := range got.notes {
			total += len(n)
		}
		if total > codexRoom || !utf8.ValidString(got.body) || got.less != (2*len(s) > codexRoom-notesRoom) || got.less != (len(got.notes) > 0) {
			t.Fatalf("twice %d bytes became %d, cut %v", len(s), total, got.less)
		}
	})
}

// FuzzClientName: a session's name is plain whatever a client calls itself.
func FuzzClientName(f *testing.F) {
	for _, s := range []string{"", "Claude Code", "../../x", "\x00\xff", strings.Repeat("é", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := clientName(s)
		if got == "" || len(got) > maxClient || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
