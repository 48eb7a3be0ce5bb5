package signwire

import (
	"bytes"
	"testing"
)

// A frame that is read is written again as the same bytes, and none is longer than it may be.
func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	_ = Write(&b, Payload, []byte("tree"))
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'P'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		kind, body, err := Read(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, kind, body); err != nil || !bytes.HasPrefix(raw, again.Bytes()) {
			t.Fatalf("%q is read as %c %q, %v", raw, kind, body, err)
		}
	})
}
