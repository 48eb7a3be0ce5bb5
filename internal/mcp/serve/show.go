package serve

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
)

// Bytes of one result that a client is given. A client that gets more than it passes on cuts the result
// somewhere, or puts it into a file: docs/mcp.md has the measurements.
const (
	defaultRoom = 32 << 10 // Claude Code and opencode keep results of 50,000 characters in files
	codexRoom   = 10_000   // Codex cuts after 12,000 bytes where it does not know the model
	leastRoom   = 4 << 10
	notesRoom   = 1 << 10 // of it, for the text about the rest
	tailOf      = 4       // one part in four is the end
	maxListed   = 8       // names in a note
)

// room is how many bytes the client of a request passes on to its model.
func (s *Server) room(info *mcp.Implementation) int {
	switch {
	case s.ResultBytes > 0:
		return max(s.ResultBytes, leastRoom)
	case info != nil && strings.HasPrefix(clientName(info.Name), "codex"):
		return codexRoom
	}
	return defaultRoom
}

// outcomeText is an outcome for a model to read.
func outcomeText(o palyra.Outcome, room int) (t texts) {
	if p, ok := pieceOf(o); ok {
		t.piece(p, room)
		return t
	}
	streams := t.streams(o)
	most := share(streams, room-notesRoom)
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if o.Outcome != palyra.OutcomeFinished || o.ReasonCode != "" {
		say("%s: %s (%s)", o.Outcome, o.Reason, o.ReasonCode)
		if remedy := forModels(o.ReasonCode, o.Remedy); remedy != "" {
			say("remedy: %s", remedy)
		}
	}
	for _, s := range streams {
		if s.text == "" {
			continue
		}
		newline(&b)
		if s.name == "stderr" {
			say("stderr:")
		}
		b.WriteString(t.cut(o.CallID, s, most))
	}
	if o.Outcome == palyra.OutcomeFinished && (o.ExitCode != 0 || o.Signal != "") {
		newline(&b)
		say("exit code %d%s", o.ExitCode, bySignal(o.Signal))
	}
	t.streamNotes(o)
	if o.Outcome != palyra.OutcomeFinished {
		newline(&b)
		say("call %s", o.CallID)
	}
	t.body = b.String()
	return t
}

// streamNotes are notes on what the streams do not show.
func (t *texts) streamNotes(o palyra.Outcome) {
	if id, _, ok := strings.Cut(strings.TrimPrefix(string(o.Tool), skillTools), "."); ok && strings.HasPrefix(string(o.Tool), skillTools) &&
		o.Outcome == palyra.OutcomeFinished {
		t.note("of the skill %s: %s", id, notOurs)
	}
	if text, cut, ok := skillFile(o); ok && cut {
		t.less = true
		t.note("the file is not whole, but its first %d bytes", len(text))
	}
	if n := len(o.Quarantined); n > 0 {
		t.note("taken out of the workspace, which keeps it sealed: %s%s", quoted(o.Quarantined[:min(n, maxListed)]), andMore(n))
	}
	for i, text := range o.Left {
		if i == maxListed {
			t.note("and %d more left behind", len(o.Left)-i)
			break
		}
		t.note("left behind: %s", palyra.Clip(text, 150))
	}
	if o.Truncated && artifactOf(o.Output) == "" {
		t.less = true
		t.note("more came than is kept, and the rest is lost: have the program write a file of the workspace, and read that")
	}
}

func quoted(names []palyra.PathText) string {
	out := make([]string, len(names))
	for i, n := range names {
		if out[i] = n.More(); out[i] == "" {
			out[i] = fmt.Sprintf("%q", palyra.Clip(n.Raw(), 100))
		}
	}
	return strings.Join(out, ", ")
}

func andMore(n int) string {
	if n <= maxListed {
		return ""
	}
	return fmt.Sprintf(" and %d more", n-maxListed)
}

// stream is one text of an outcome.
type stream struct{ name, text string }

// streams are the texts of an outcome; a stream that is not text is noted.
func (t *texts) streams(o palyra.Outcome) []stream {
	all := []stream{{"stdout", o.Stdout}, {"stderr", o.Stderr}, {"output", t.output(o)}}
	for i, b64 := range []string{o.StdoutB64, o.StderrB64} {
		if b64 != "" {
			t.less, all[i].text = true, ""
			t.note("%s is %d bytes that are not text; read them, as base64, with %s", all[i].name, base64.StdEncoding.DecodedLen(len(b64)),
				pages(o.CallID, all[i].name, 0))
		}
	}
	return all
}

// output is the output of a tool for a model to read. One that was kept as an artifact is there with its two ends.
func (t *texts) output(o palyra.Outcome) string {
	if len(o.Output) == 0 || string(o.Output) == "null" {
		return ""
	}
	id := artifactOf(o.Output)
	if id == "" {
		return readable(o)
	}
	var cut struct {
		Size       int
		Head, Tail string
	}
	_ = json.Unmarshal(o.Output, &cut) // artifactOf could read it
	t.less = true
	t.note(`the output is %d bytes; its first %d and last %d are here; read it in pages with palyra_artifact_read {"artifact_id":%q,"offset":%d}`,
		cut.Size, len(cut.Head), len(cut.Tail), id, len(cut.Head))
	return cut.Head + leftOut(cut.Size-len(cut.Head)-len(cut.Tail)) + cut.Tail
}

func leftOut(n int) string { return fmt.Sprintf("\n[… %d bytes left out …]\n", n) }

// share is the most that each stream may have, so that all have room together.
func share(streams []stream, room int) int {
	sizes := make([]int, len(streams))
	for i, s := range streams {
		sizes[i] = len(s.text)
	}
	slices.Sort(sizes)
	for i, n := range sizes {
		if each := room / (len(sizes) - i); n > each {
			return each
		}
		room -= n
	}
	return sizes[len(sizes)-1]
}

// cut keeps the beginning and the end of a long text, at whole characters, and notes how the rest is read.
func (t *texts) cut(call palyra.CallID, s stream, most int) string {
	if len(s.text) <= most {
		return s.text
	}
	head := dropCutRune(s.text[:most-most/tailOf])
	tail := len(s.text) - most/tailOf
	for tail < len(s.text) && !utf8.RuneStart(s.text[tail]) {
		tail++
	}
	t.less = true
	t.note("%s is %d bytes; its first %d and last %d are here; read on with %s", s.name, len(s.text), len(head), len(s.text)-tail,
		pages(call, s.name, len(head)))
	return head + leftOut(tail-len(head)) + s.text[tail:]
}

// dropCutRune drops a character that is cut at the end of a text.
func dropCutRune(s string) string {
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		if end := s[len(s)-i:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRuneInString(end) {
				return s[:len(s)-i]
			}
			return s
		}
	}
	return s
}

// pages says how to read a stream from a byte on.
func pages(call palyra.CallID, stream string, offset int) string {
	return fmt.Sprintf(`%s {"call_id":%q,"stream":%q,"offset":%d}`, outputTool, call, stream, offset)
}

// artifactOf is the artifact that an output was kept as, or "".
func artifactOf(output json.RawMessage) palyra.ID {
	var cut struct {
		Truncated bool      `json:"truncated"`
		Artifact  palyra.ID `json:"artifact_id"`
	}
	if len(output) > 64<<10 || json.Unmarshal(output, &cut) != nil || !cut.Truncated {
		return ""
	}
	return cut.Artifact
}

func bySignal(s string) string {
	if s == "" {
		return ""
	}
	return ", signal " + s
}

func newline(b *strings.Builder) {
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
}
