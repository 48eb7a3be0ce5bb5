package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/screen"
)

// oracle answers with what it was asked, the later ones first.
type oracle struct {
	hold    chan struct{} // closed when enough are under way
	waiting atomic.Int64
	busy    atomic.Int64 // how often it says that it is
}

func (o *oracle) Why(ctx context.Context, r client.WhyRequest) (client.Explanation, error) {
	if o.busy.Add(-1) >= 0 {
		return client.Explanation{}, palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "too much").WithAfter(1)
	}
	if o.hold != nil {
		if o.waiting.Add(1) == whyAhead {
			close(o.hold)
		}
		select {
		case <-o.hold:
		case <-ctx.Done():
			return client.Explanation{}, ctx.Err()
		}
	}
	return client.Explanation{Reason: string(r.Arguments) + string(r.Principal) + r.Workspace, Verdict: palyra.Verdict{Effect: palyra.Ask}},
		nil
}

func batch(t *testing.T, o *oracle, text string, opts whyOptions) (lines []map[string]any, err error) {
	t.Helper()
	var out bytes.Buffer
	opts.batch, opts.exec.Workspace = "-", "/w"
	inv := &invocation.Invocation{Stdin: strings.NewReader(text), Stdout: &out, Stderr: io.Discard, Context: t.Context()}
	err = whyBatch(t.Context(), inv, o, opts)
	for line := range strings.Lines(out.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, v)
	}
	return lines, err
}

func TestWhyBatchKeepsItsOrder(t *testing.T) {
	var text strings.Builder
	for n := range 100 {
		fmt.Fprintf(&text, `{"tool":"t","input":{"n":%d}}`+"\n", n)
	}
	o := &oracle{hold: make(chan struct{})}
	o.busy.Store(5)
	got, err := batch(t, o, text.String(), whyOptions{})
	if err != nil || len(got) != 100 {
		t.Fatalf("%d, %v", len(got), err)
	}
	for n, line := range got {
		if line["verdict"] != "ask" || line["line"] != float64(n+1) || line["reason"] != fmt.Sprintf(`{"n":%d}/w`, n) {
			t.Errorf("%d: %v", n, line)
		}
	}
}

func TestWhyBatchLines(t *testing.T) {
	long := `{"script":"` + strings.Repeat("x", maxWhyLine) + `"}`
	for _, c := range []struct{ line, want string }{
		{`{"argv":["ls","-l"]}`, `{"command":"ls","args":["-l"],"cwd":"."}/w`},
		{`{"argv":["ls"],"tier":"c","principal":"agent:x","workspace":"/v"}`, `{"command":"ls","cwd":".","tier":"c"}agent:x/v`},
		{`{"script":"ls | wc"}`, `{"cwd":".","script":"ls | wc"}/w`},
		{`{"tool":"t"}`, `{}/w`},
		{`{"tool":"t","input":[1]}`, `[1]/w`},
		{`{`, "not a question"},
		{`[]`, "not a question"},
		{`{} {}`, "follows"},
		{`{}`, "argv, script, or tool"},
		{`{"argv":["a"],"tool":"b"}`, "one of them only"},
		{`{"argv":["a"],"input":{}}`, "one of them only"},
		{`{"argv":[""]}`, "names no command"},
		{`{"argv":["a"],"other":1}`, "unknown field"},
		{`{"script":" "}`, "empty"},
		{`{"script":"` + strings.Repeat("x", proposal.MaxScript+1) + `"}`, "larger than"},
		{`{"argv":["a` + "\xff" + `"]}`, ""},
		{long, "longer than 1 MiB"},
	} {
		got, err := batch(t, &oracle{}, c.line+"\n"+`{"tool":"after"}`, whyOptions{})
		if len(got) != 2 || got[1]["reason"] != "{}/w" {
			t.Fatalf("%.60s: %v, %v", c.line, got, err)
		}
		problem, bad := got[0]["error"].(map[string]any)
		text, _ := got[0]["reason"].(string)
		if bad {
			text, _ = problem["text"].(string)
		}
		if !strings.Contains(text, c.want) || bad != (err != nil) || bad && got[0]["line"] != 1.0 {
			t.Errorf("%.60s: %v, %v", c.line, got[0], err)
		}
		if bad && exit.Of(err) != exit.Failure {
			t.Errorf("%.60s: exit %d", c.line, exit.Of(err))
		}
	}
}

// Every line has its answer, also one with nothing in it; what is behind the last
// line is none.
func TestWhyBatchAnswersEveryLine(t *testing.T) {
	const good = `{"tool":"t"}`
	for text, want := range map[string]string{
		"": "", "\n": "e", good: "g", good + "\n": "g", "\n" + good + "\n \t\n\r\n" + good: "egeeg", good + "\n\n": "ge",
		good + "\r\n" + good: "gg",
	} {
		lines, err := batch(t, &oracle{}, text, whyOptions{})
		got := ""
		for i, line := range lines {
			if line["line"] != float64(i+1) {
				t.Errorf("%q: answer %d is that of line %v", text, i+1, line["line"])
			}
			if problem, bad := line["error"].(map[string]any); !bad {
				got += "g"
			} else if problem["text"] == "the line is empty" {
				got += "e"
			}
		}
		if got != want || (err != nil) != strings.Contains(want, "e") {
			t.Errorf("%q: %s, want %s: %v", text, got, want, err)
		}
	}
}

func TestWhyBatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	inv := &invocation.Invocation{Stdin: r, Stdout: io.Discard, Context: ctx}
	done := make(chan error, 1)
	go func() {
		done <- whyBatch(ctx, inv, &oracle{}, whyOptions{exec: proposal.Options{Workspace: "/w"}, batch: "-"})
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte(`{"tool":"t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	full := &invocation.Invocation{Stdout: brokenPipe{}, Context: t.Context()}
	if err := whyBatch(t.Context(), full, &oracle{}, whyOptions{exec: proposal.Options{Workspace: "/w"}, batch: file}); !errors.Is(err,
		io.ErrClosedPipe) {
		t.Error(err)
	}
	if err := whyBatch(t.Context(), inv, &oracle{}, whyOptions{batch: file + "y"}); palyra.AsError(err).Reason != palyra.ReasonFileNotFound {
		t.Error(err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// What the daemon does not say is empty, and never missing.
func TestWhyOfNothing(t *testing.T) {
	raw, err := screen.EncodePlain(whyOf(client.Explanation{}, false))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"verdict":"deny"`, `"need":{"votes":0}`, `"layer":""`, `"policies":[]`, `"remedy":""`, `"reason":""`, `"flips":[]`, `"context":{}`,
		`"errors":[]`,
	} {
		if !bytes.Contains(raw, []byte(want)) {
			t.Errorf("no %s in %s", want, raw)
		}
	}
}

func FuzzWhyLine(f *testing.F) {
	f.Add([]byte(`{"argv":["ls"]}`))
	f.Add([]byte(`{"tool":"t","input":{}}`))
	f.Add([]byte(`{"script":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := whyOptions{}.question(line)
		if err == nil && (r.Tool == "" || !json.Valid(r.Arguments)) {
			t.Errorf("%q: %+v", line, r)
		}
	})
}

// People see how the caller came under the name that policies use.
func TestWhyNamesTheSurface(t *testing.T) {
	var out strings.Builder
	printWhy(&out, whyAnswer{Context: json.RawMessage(`{"surface":"hook","door":"hook"}`)})
	if text := out.String(); !strings.Contains(text, `surface`) || strings.Contains(text, "door") {
		t.Error(text)
	}
}
