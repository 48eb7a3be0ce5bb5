package tool

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"palyra"
)

// DefaultPage is the size of a page in bytes unless the caller asks for another.
const DefaultPage = 128 << 10

// Page is a piece of a file or an artifact, as an agent reads it.
type Page struct {
	Path     string    // the file it is a piece of
	Artifact palyra.ID // or the artifact
	Data     []byte
	Offset   int64 // of Data in the whole
	Size     int64 // of the whole
	Base64   bool  // not text
}

type pageResult struct {
	Path       string    `json:"path,omitempty"`
	Artifact   palyra.ID `json:"artifact_id,omitempty"`
	Encoding   string    `json:"encoding"`
	Content    string    `json:"content"`
	Offset     int64     `json:"offset"`
	Bytes      int       `json:"bytes"`
	Size       int64     `json:"size"`
	EOF        bool      `json:"eof"`
	NextOffset int64     `json:"next_offset"`
}

func (p Page) end() int64 { return p.Offset + int64(len(p.Data)) }

// Encode writes the page as JSON of at most most bytes, and shortens it until it fits: a page that became an
// artifact would have to be read in pages again. A page of text ends with a whole character and must be UTF-8.
func (p Page) Encode(most int64) (json.RawMessage, error) {
	if !p.Base64 {
		if p.end() < p.Size {
			p.Data = wholeRunes(p.Data)
		}
		if !utf8.Valid(p.Data) {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the text from byte %d on is not UTF-8", p.Offset).
				WithRemedy("read it with encoding base64, or from an offset where a character begins")
		}
	}
	for {
		out, err := Encode(p.result())
		if err != nil || int64(len(out)) <= most || len(p.Data) <= 1 {
			return out, err
		}
		data := p.Data[:max(1, int64(len(p.Data))*most/int64(len(out))*9/10)]
		if !p.Base64 {
			data = wholeRunes(data)
		}
		if len(data) == 0 { // not even one character fits
			return out, nil
		}
		p.Data = data
	}
}

func (p Page) result() pageResult {
	r := pageResult{
		Path: p.Path, Artifact: p.Artifact, Encoding: "text", Content: string(p.Data), Offset: p.Offset, Bytes: len(p.Data),
		Size: p.Size, EOF: p.end() >= p.Size, NextOffset: p.end(),
	}
	if p.Base64 {
		r.Encoding, r.Content = "base64", base64.StdEncoding.EncodeToString(p.Data)
	}
	return r
}

// wholeRunes drops an incomplete character at the end. It keeps bytes that no following byte could
// complete, so that they are found invalid.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}
