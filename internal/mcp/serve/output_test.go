package serve_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

// TestLongOutputIsBounded: a model reads the beginning and the end, and can read
// every byte in pages.
func TestLongOutputIsBounded(t *testing.T) {
	whole := "first\n" + strings.Repeat("zürich ", 40000) + "\nlast"
	d := newDaemon()
	out := palyra.Outcome{
		Outcome: palyra.OutcomeFinished, CallID: "C1", Stdout: whole,
		StderrB64: base64.StdEncoding.EncodeToString([]byte("\xff\xfe\x00")), ExitCode: 3,
	}
	out.Output = json.RawMessage(`{"long":"` + strings.Repeat("x", 100<<10) + `"}`)
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return out, nil
	}
	d.onGet = func(id palyra.CallID) (palyra.Call, error) { return palyra.Call{ID: id, Outcome: &out}, nil }
	p, _ := stdio(t, server(t, d, nil))
	r, err := p.call(t.Context(), "palyra_process_run", nil)
	if err != nil || r.IsError {
		t.Fatalf("%v %+v", err, r)
	}
	got := words(t, r)
	for _, want := range []string{
		"first\n", "\nlast", "bytes left out", "exit code 3",
		`palyra_call_output {"call_id":"C1","stream":"stdout","offset":`, "stderr is 3 bytes that are not text", `"stream":"output"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the text", want)
		}
	}
	raw, _ := json.Marshal(r)
	if len(raw) > 36<<10 || !utf8.ValidString(got) || fields(t, r)["truncated"] != true {
		t.Errorf("%d bytes for a model", len(raw))
	}
	for stream, want := range map[string]string{"stdout": whole, "stderr": "\xff\xfe\x00", "output": string(out.Output)} {
		if got := readAll(t, p, stream); got != want {
			t.Errorf("%s: %d bytes, want %d", stream, len(got), len(want))
		}
	}
}

// What became of the changes of a call is among the fields of its result.
func TestChangesAreAmongTheFields(t *testing.T) {
	d := newDaemon()
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return palyra.Outcome{
			Outcome: palyra.OutcomeFinished, CallID: "C1", Effects: palyra.EffectsDropped, ReasonCode: palyra.ReasonEffectsDropped,
			Changes: &palyra.Effects{Removed: 25, List: "L1"},
		}, nil
	}
	p, _ := stdio(t, server(t, d, nil))
	r, err := p.call(t.Context(), "palyra_process_run", nil)
	if err != nil {
		t.Fatal(err)
	}
	f := fields(t, r)
	changes, _ := f["changes"].(map[string]any)
	if f["effects"] != "dropped" || changes["removed"] != 25.0 || changes["list_id"] != "L1" {
		t.Errorf("%v", f)
	}
}

// readAll reads a stream by its pages.
func readAll(t *testing.T, p *peer, stream string) string {
	t.Helper()
	var all []byte
	for offset := 0.0; ; {
		r, err := p.call(t.Context(), "palyra_call_output", map[string]any{"call_id": "C1", "stream": stream, "offset": offset, "limit": 60001})
		if err != nil || r.IsError {
			t.Fatalf("%v %+v", err, r)
		}
		f := fields(t, r)
		got := texts(t, r)
		piece := []byte(got[len(got)-1])
		if f["encoding"] == "base64" {
			piece, _ = base64.StdEncoding.DecodeString(string(piece))
		}
		all = append(all, piece...)
		if f["eof"] == true {
			return string(all)
		}
		if next := f["next_offset"].(float64); next > offset {
			offset = next
			continue
		}
		t.Fatal("a page does not go on")
	}
}

func TestPagesSmallerThanACharacter(t *testing.T) {
	d := newDaemon()
	out := palyra.Outcome{Outcome: palyra.OutcomeFinished, Stdout: "ü€"}
	d.onGet = func(id palyra.CallID) (palyra.Call, error) { return palyra.Call{ID: id, Outcome: &out}, nil }
	p, _ := stdio(t, server(t, d, nil))
	offset := 0.0
	for range 5 {
		r, err := p.call(t.Context(), "palyra_call_output", map[string]any{"call_id": "C", "stream": "stdout", "offset": offset, "limit": 1})
		if err != nil || r.IsError {
			t.Fatalf("%v %+v", err, r)
		}
		offset = fields(t, r)["next_offset"].(float64)
	}
	if offset != 5 {
		t.Errorf("five pages end at %v", offset)
	}
}

const artifact = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// TestArtifactsAreResources: a result links to its artifact, which is read in
// pages by the tool for that, in the session of the call.
func TestArtifactsAreResources(t *testing.T) {
	d := newDaemon()
	d.onCall = func(_ context.Context, r client.CallRequest, _ func(client.CallEvent)) (palyra.Outcome, error) {
		o := palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1", Tool: r.Tool}
		if r.Tool != "palyra.artifact.read" {
			o.Output = json.RawMessage(`{"truncated":true,"artifact_id":"` + artifact + `","head":"h","tail":"t"}`)
			return o, nil
		}
		var a struct {
			Offset   int64
			Encoding string
		}
		_ = json.Unmarshal(r.Arguments, &a)
		switch {
		case a.Offset == 0:
			o.Output = json.RawMessage(`{"encoding":"text","content":"page one","size":20,"eof":false,"next_offset":8}`)
		case a.Encoding == "text":
			o.ReasonCode = palyra.ReasonMalformedInput
		default:
			o.Output = json.RawMessage(`{"encoding":"base64","content":"/wA=","size":20,"eof":true,"next_offset":20}`)
		}
		return o, nil
	}
	p, _ := stdio(t, server(t, d, nil))
	r, err := p.call(t.Context(), "palyra_process_run", nil)
	if err != nil || len(r.Content) != 3 || !strings.Contains(words(t, r), `palyra_artifact_read {"artifact_id":"`+artifact+`","offset":1}`) {
		t.Fatalf("%v %+v", err, r)
	}
	link, ok := r.Content[2].(*mcp.ResourceLink)
	if !ok || link.URI != "palyra://artifact/"+artifact {
		t.Fatalf("%+v", r.Content[2])
	}
	one, err := p.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
	if err != nil {
		t.Fatal(err)
	}
	next, _ := one.Contents[0].Meta["next_uri"].(string)
	if one.Contents[0].Text != "page one" || next != link.URI+"/8" {
		t.Errorf("%+v", one.Contents[0])
	}
	two, err := p.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: next})
	if err != nil || string(two.Contents[0].Blob) != "\xff\x00" {
		t.Errorf("%v %+v", err, two)
	}
	made := d.made()
	if made[0].Session != made[1].Session || !made[1].NoWait {
		t.Errorf("calls %+v", made)
	}
}

func TestArtifactsThatAreNone(t *testing.T) {
	d := newDaemon()
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, ReasonCode: palyra.ReasonNotFound, Reason: "no artifact in /secret/place"}, nil
	}
	p, _ := stdio(t, server(t, d, nil))
	for _, uri := range []string{
		"palyra://artifact/" + artifact, "palyra://artifact/../x", "palyra://artifact/" + artifact + "/-1",
		"palyra://artifact/" + artifact + "/01",
		"palyra://artifact/lower", "palyra://artifact/" + artifact + "/99999999999999999999", "file:///etc/passwd",
	} {
		_, err := p.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err == nil || strings.Contains(err.Error(), "/secret/place") {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if n := len(d.made()); n != 1 {
		t.Errorf("%d calls were made", n)
	}
}
