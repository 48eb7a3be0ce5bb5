package serve_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

// way is how a client gives a result to its model, as it was seen with the real
// programs (docs/mcp.md).
type way struct {
	name, client string
	most         int // bytes, after which the client cuts
	around       int // bytes that the client adds
}

var ways = []way{
	{"Claude Code", "claude-code", 50_000, 0},
	{"Codex", "codex-mcp-client", 12_000, len("Wall time: 0.0000 seconds\nOutput:")},
	{"others", "Test Client", 50_000, 0},
}

// disk is a daemon with one file, which is read in pages of 128 KiB as the tool does.
func disk(file string) *daemon {
	d := newDaemon()
	read := echoTool()
	read.Name = "palyra.fs.read"
	d.set(read)
	d.onCall = func(_ context.Context, r client.CallRequest, _ func(client.CallEvent)) (palyra.Outcome, error) {
		var a struct {
			Path     string
			Offset   int
			Encoding string
		}
		_ = json.Unmarshal(r.Arguments, &a)
		end := min(a.Offset+128<<10, len(file))
		content := file[a.Offset:end]
		if a.Encoding == "base64" {
			content = base64.StdEncoding.EncodeToString([]byte(content))
		} else {
			a.Encoding = "text"
		}
		out, _ := json.Marshal(map[string]any{
			"path": a.Path, "encoding": a.Encoding, "content": content, "offset": a.Offset, "bytes": end - a.Offset, "size": len(file),
			"eof": end == len(file), "next_offset": end,
		})
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: r.Tool, CallID: "C1", Output: out}, nil
	}
	return d
}

// prints is a daemon whose program prints a text.
func prints(text string) *daemon {
	d := newDaemon()
	out := palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: "palyra.process.run", CallID: "C1", Stdout: text}
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return out, nil
	}
	d.onGet = func(id palyra.CallID) (palyra.Call, error) { return palyra.Call{ID: id, Outcome: &out}, nil }
	return d
}

// source is n bytes of a program as people write them: tabs, quotes, backslashes.
func source(n int) string {
	const line = "\tif err != nil { return \"x\\t0\" } // ein Kommentar\n"
	return strings.Repeat(line, n/len(line)+1)[:n]
}

// goOn finds what a model is told to call next.
var goOn = regexp.MustCompile(`read on with (palyra_[a-z_]+) (\{.*\})\]$`)

// follow makes a call and then does what it is told, until nothing is missing. It
// returns what a model has then, and what it was given for the first call.
func follow(t *testing.T, p *peer, w way, tool string, args any) (whole, first string) {
	t.Helper()
	for n := 0; ; n++ {
		r, err := p.call(t.Context(), tool, args)
		if err != nil || r.IsError {
			t.Fatalf("%v %+v", err, r)
		}
		got := texts(t, r)
		given := strings.Join(got, "")
		if len(given)+w.around > w.most {
			t.Fatalf("%d bytes: %s would cut that", len(given), w.name)
		}
		if n == 0 {
			first = given
		}
		note, body := "", got[len(got)-1]
		if len(got) == 2 {
			note = got[0]
		}
		m := goOn.FindStringSubmatch(note)
		if m == nil {
			return whole + body, first
		}
		var next map[string]any
		if err := json.Unmarshal([]byte(m[2]), &next); err != nil {
			t.Fatalf("%s: %v", m[2], err)
		}
		if at := int(next["offset"].(float64)); at <= len(whole) {
			t.Fatalf("go on at %d with %d bytes read", at, len(whole))
		}
		whole += body[:int(next["offset"].(float64))-len(whole)] // of a stream the end was shown too
		tool, args = m[1], next
	}
}

// TestEveryByteArrives: what a model is given is the whole, byte for byte, or says what
// is missing and how to get it; following that gives the whole. Small results stay
// small, and no client has a reason to cut.
func TestEveryByteArrives(t *testing.T) {
	var table strings.Builder
	for _, n := range []int{1, 11, 1000, 9 << 10, 10 << 10, 24<<10 - 1, 24390, 32 << 10, 100 << 10, 128<<10 + 1, 1 << 20} {
		for _, w := range ways {
			text := source(n)
			file, one := follow(t, named(t, server(t, disk(text), nil), w.client), w, "palyra_fs_read", map[string]any{"path": "a \"b\".go"})
			out, two := follow(t, named(t, server(t, prints(text), nil), w.client), w, "palyra_process_run", nil)
			if file != text || out != text {
				t.Errorf("%s, %d bytes: %d of the file, %d of the program", w.name, n, len(file), len(out))
			}
			if n <= 8<<10 && (one != text || two != text) {
				t.Errorf("%s, %d bytes: the model is given %d and %d", w.name, n, len(one), len(two))
			}
			fmt.Fprintf(&table, "\n%-12s %8d bytes: file %6d, program %6d", w.name, n, len(one), len(two))
		}
	}
	t.Log(table.String())
}

// named connects a client of that name.
func named(t *testing.T, s *serve.Server, name string) *peer {
	t.Helper()
	p, _ := newPeer()
	connect(t, s, p, mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, nil))
	return p
}

// TestWhatIsNotWholeSaysSo: the ends of files, base64, nothing at all, and output that
// is lost.
func TestWhatIsNotWholeSaysSo(t *testing.T) {
	p := named(t, server(t, disk("grüße"), nil), "x")
	for args, want := range map[string]string{
		`{"path":"a"}`:                     "grüße",
		`{"path":"a","offset":4}`:          "[palyra: bytes 4 to 7 of the 7 of the file; this is the end]\nße",
		`{"path":"a","offset":7}`:          "[palyra: the file has 7 bytes, and none from byte 7 on]",
		`{"path":"a","encoding":"base64"}`: "[palyra: all 7 bytes of the file, as base64]\nZ3LDvMOfZQ==",
	} {
		r, err := p.call(t.Context(), "palyra_fs_read", json.RawMessage(args))
		if err != nil || words(t, r) != want || fields(t, r)["eof"] != true {
			t.Errorf("%s: %v %q", args, err, words(t, r))
		}
	}
	p = named(t, server(t, disk(""), nil), "x")
	if r, err := p.call(t.Context(), "palyra_fs_read", map[string]any{"path": "a"}); err != nil ||
		words(t, r) != "[palyra: the file is empty]" {
		t.Errorf("%v %q", err, words(t, r))
	}
	p = named(t, server(t, disk(strings.Repeat("\xff", 100<<10)), nil), "x")
	r, err := p.call(t.Context(), "palyra_fs_read", map[string]any{"path": "a", "encoding": "base64"})
	if err != nil || !strings.Contains(words(t, r), `palyra_fs_read {"path":"a","offset":23808,"encoding":"base64"}]`) ||
		fields(t, r)["eof"] != false {
		t.Errorf("%v %.200q", err, words(t, r))
	}
	d := newDaemon()
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1", Truncated: true, Quarantined: []palyra.PathText{".git/hooks/x"}}, nil
	}
	r, err = named(t, server(t, d, nil), "x").call(t.Context(), "palyra_process_run", nil)
	if err != nil || !strings.Contains(words(t, r), "the rest is lost") || !strings.Contains(words(t, r), ".git/hooks/x") {
		t.Errorf("%v %q", err, words(t, r))
	}
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1"}, nil
	}
	if r, err = named(t, server(t, d, nil), "x").call(t.Context(), "palyra_process_run", nil); err != nil ||
		words(t, r) != "[palyra: finished without output]" {
		t.Errorf("%v %q", err, words(t, r))
	}
}

// TestRemediesAreForModels: a model has the tools' schemas and no terminal, and is
// never told how a question is answered.
func TestRemediesAreForModels(t *testing.T) {
	d := newDaemon()
	d.onCall = func(_ context.Context, r client.CallRequest, _ func(client.CallEvent)) (palyra.Outcome, error) {
		return palyra.Outcome{
			Outcome: palyra.OutcomeRefused, Tool: r.Tool, CallID: "C1", ReasonCode: palyra.ReasonSchemaMismatch,
			Reason: "there is no argument \"pth\"",
			Remedy: "did you mean path? See 'palyra tools show palyra.fs.read'",
		}, nil
	}
	r, err := named(t, server(t, d, nil), "x").call(t.Context(), "palyra_echo", nil)
	if got := words(t, r); err != nil || !strings.Contains(got, "remedy: did you mean path? see the tool's input schema\n") {
		t.Errorf("%v %q", err, got)
	}
}
