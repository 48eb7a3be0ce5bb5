package journal

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/pack"
)

// MaxBody is the longest body, in canonical bytes, that is kept as it is.
const MaxBody = 64 << 10

// maxCallID bounds what is taken for the id of a call; ours have 26 characters.
const maxCallID = 64

// catalogue is the kinds the journal accepts and the type of each.
type catalogue map[string]reflect.Type

func newCatalogue() catalogue {
	c := catalogue{}
	for _, e := range palyra.Catalogue() {
		c[e.Kind()] = reflect.TypeOf(e)
	}
	return c
}

// draft is an event in its canonical form, not yet at its place.
type draft struct {
	kind, call string
	body       []byte
}

// draft encodes an event. Another type under a known kind is refused like an
// unknown kind: its fields are not those that readers expect.
func (c catalogue) draft(e palyra.Event) (draft, error) {
	if e == nil || c[e.Kind()] != reflect.TypeOf(e) {
		return draft{}, palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "journal: %T is not an event of the catalogue", e)
	}
	body, err := canon.MarshalMended(e)
	if err != nil {
		return draft{}, fmt.Errorf("journal: encode %s: %w", e.Kind(), err)
	}
	d := draft{kind: e.Kind(), body: capped(body)}
	if id := lookup(body, "call_id"); len(id) <= maxCallID {
		d.call = id
	}
	return d, nil
}

// capped replaces a body over the cap by its size and digest.
func capped(body []byte) []byte {
	if len(body) <= MaxBody {
		return body
	}
	b := []byte("m3:")
	b = appendText(appendText(b, 's', "digest"), 's', string(palyra.SumBytes(body)))
	b = appendText(appendText(b, 's', "size"), 'n', strconv.Itoa(len(body)))
	return append(appendText(b, 's', "truncated"), 't')
}

// line is an entry at its place, as it stands in its row.
type line struct {
	seq, time   int64
	kind, call  string
	leaf, chain tlog.Hash
	entry       []byte
}

// lineAt gives a draft its place after the tree's last entry.
func (d draft) lineAt(seq int64, now time.Time) line {
	now = time.Unix(0, now.UnixNano()).UTC() // the precision that a row keeps
	b := make([]byte, 0, len(d.body)+len(d.call)+len(d.kind)+128)
	fields := 4
	if d.call != "" {
		fields = 5
	}
	b = appendCount(b, 'm', fields)
	b = append(appendText(b, 's', "body"), d.body...)
	if d.call != "" {
		b = appendText(appendText(b, 's', "call_id"), 's', d.call)
	}
	b = appendText(appendText(b, 's', "kind"), 's', d.kind)
	b = appendText(appendText(b, 's', "seq"), 'n', strconv.FormatInt(seq, 10))
	b = appendText(appendText(b, 's', "time"), 's', palyra.Time(now))
	return line{seq: seq, time: now.UnixNano(), kind: d.kind, call: d.call, entry: b, leaf: tlog.RecordHash(b)}
}

func appendText(b []byte, tag byte, s string) []byte {
	return append(appendCount(b, tag, len(s)), s...)
}

func appendCount(b []byte, tag byte, n int) []byte {
	return append(strconv.AppendInt(append(b, tag), int64(n), 10), ':')
}

// decodeRow reads an entry as its row has it.
func decodeRow(b []byte) (palyra.Entry, error) {
	text, err := pack.AppendLine(nil, b)
	if err != nil {
		return palyra.Entry{}, fmt.Errorf("journal: entry: %w", err)
	}
	return decode(text)
}

// decode reads an entry's bytes.
func decode(b []byte) (palyra.Entry, error) {
	var e palyra.Entry
	if err := canon.Unmarshal(b, &e); err != nil {
		return palyra.Entry{}, fmt.Errorf("journal: entry: %w", err)
	}
	return e, nil
}
