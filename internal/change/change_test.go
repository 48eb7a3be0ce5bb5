package change

import (
	"encoding/json"
	"testing"
)

// What is removed and made again is no change where it is the same, and one where nobody read it; names that are no text
// come through JSON.
func TestSet(t *testing.T) {
	var s Set
	file := State{Kind: File, Mode: 0o644, Size: 1, Digest: "sha256:1"}
	unread := State{Kind: File, Mode: 0o644, Size: 1}
	s.Removed("same", file)
	s.Made("same", file)
	s.Removed("unread", unread)
	s.Made("unread", unread)
	s.Removed("gone", file)
	s.Made("new", unread)
	s.Read("new", false, "sha256:2")
	s.Read("absent", true, "sha256:3")
	s.Made("forgotten", file)
	s.Forget("forgotten")
	s.Removed("dropped", file)
	s.Made("dropped", unread)
	s.Drop("dropped")
	var got string
	for _, c := range s.List() {
		got += c.Path + ":" + string(c.Was.Kind) + ">" + string(c.Now.Kind) + c.Now.Digest + " "
	}
	if want := "gone:file> new:>filesha256:2 unread:file>file "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	raw := State{Kind: Link, Target: "a\xff"}
	text, err := json.Marshal(raw)
	var back State
	if err != nil || json.Unmarshal(text, &back) != nil || back != raw || json.Unmarshal([]byte(`{"kind":1}`), &back) == nil {
		t.Errorf("%s, %v, %+v", text, err, back)
	}
}
