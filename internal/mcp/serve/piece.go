package serve

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"palyra"
)

// piece is a part of something that is read in pages: of a file, an artifact or a stream.
type piece struct {
	Path     string    `json:"path"`
	Artifact palyra.ID `json:"artifact_id"`
	Encoding string    `json:"encoding"`
	Content  string    `json:"content"`
	Offset   int64     `json:"offset"`
	Size     int64     `json:"size"`
	EOF      bool      `json:"eof"`

	what string                    // it is a piece of
	next func(offset int64) string // how to go on
}

// place is where a piece stands in the whole, for programs.
type place struct {
	Encoding   string `json:"encoding"`
	Offset     int64  `json:"offset"`
	Size       int64  `json:"size"`
	NextOffset int64  `json:"next_offset"`
	EOF        bool   `json:"eof"`
}

// pieceOf reads the output of the tools that read in pages.
func pieceOf(o palyra.Outcome) (p piece, ok bool) {
	if o.Outcome != palyra.OutcomeFinished || o.ReasonCode != "" || o.Stdout != "" || o.Stderr != "" {
		return p, false
	}
	var key, value string
	switch o.Tool {
	case readTool:
		key = "path"
	case artifactTool:
		key = "artifact_id"
	default:
		return p, false
	}
	if json.Unmarshal(o.Output, &p) != nil || p.Encoding != "text" && p.Encoding != "base64" {
		return p, false
	}
	p.what, value = "the file", p.Path
	if o.Tool == artifactTool {
		p.what, value = "the artifact", string(p.Artifact)
	}
	quoted, err := json.Marshal(value)
	if err != nil || value == "" {
		return p, false
	}
	as := ""
	if p.Encoding == "base64" {
		as = `,"encoding":"base64"`
	}
	p.next = func(offset int64) string {
		return fmt.Sprintf(`%s {%q:%s,"offset":%d%s}`, strings.ReplaceAll(string(o.Tool), ".", "_"), key, quoted, offset, as)
	}
	return p, true
}

// readTool reads files.
const readTool = palyra.ToolFileRead

// piece shows as much of a piece as there is room for, from its beginning, and says where it stands unless it is
// the whole. What is shown is what was read, byte for byte.
func (t *texts) piece(p piece, room int) {
	if len(p.Content) > room || !p.EOF {
		room -= notesRoom
	}
	kept, n := p.fit(room)
	end := p.Offset + n
	eof := p.EOF && len(kept) == len(p.Content)
	t.body, t.less = kept, !eof
	t.place = &place{Encoding: p.Encoding, Offset: p.Offset, Size: p.Size, NextOffset: end, EOF: eof}
	as := ""
	if p.Encoding == "base64" {
		as = ", as base64"
	}
	switch {
	case n == 0 && eof && p.Size == 0:
		t.note("%s is empty", p.what)
	case n == 0 && eof:
		t.note("%s has %d bytes, and none from byte %d on", p.what, p.Size, p.Offset)
	case !eof:
		t.note("bytes %d to %d of the %d of %s%s; %d are missing; read on with %s", p.Offset, end, p.Size, p.what, as, p.Size-end, p.next(end))
	case p.Offset > 0:
		t.note("bytes %d to %d of the %d of %s%s; this is the end", p.Offset, end, p.Size, p.what, as)
	case as != "":
		t.note("all %d bytes of %s%s", p.Size, p.what, as)
	}
}

// fit is the beginning of a piece that fits, and how many bytes it stands for. Text
// ends with a whole character, and with a line where one ends near.
func (p piece) fit(room int) (string, int64) {
	kept := p.Content
	if p.Encoding == "base64" {
		if len(kept) > room {
			kept = kept[:room/4*4]
		}
		raw, err := base64.StdEncoding.DecodeString(kept)
		if err != nil { // its content does not match its type; it is shown, and not counted
			return kept, 0
		}
		return kept, int64(len(raw))
	}
	if len(kept) > room {
		kept = dropCutRune(kept[:room])
		if i := strings.LastIndexByte(kept, '\n'); i >= len(kept)*3/4 {
			kept = kept[:i+1]
		}
	}
	return kept, int64(len(kept))
}
