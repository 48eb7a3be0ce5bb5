package effects

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"palyra"
)

func sampleChanges() []palyra.Change {
	file := func(size int64, mode uint32, text string) *palyra.PathState {
		return &palyra.PathState{Kind: palyra.PathFile, Mode: mode, Size: size, Digest: palyra.SumBytes([]byte(text))}
	}
	dir := func(mode uint32) *palyra.PathState { return &palyra.PathState{Kind: palyra.PathDirectory, Mode: mode} }
	link := &palyra.PathState{Kind: palyra.PathLink, Target: palyra.TextOfPath("to\xff")}
	all := []palyra.Change{
		{Path: palyra.TextOfPath(""), Was: dir(0o755), Now: dir(0o700)},
		{Path: "a", Now: file(5, 0o644, "a")},
		{Path: "b", Was: file(7, 0o644, "b"), Now: file(9, 0o644, "c")},
		{Path: "c", Was: file(1, 0o600, "d")},
		{Path: "d", Was: file(1, 0o600, "e"), Now: link},
		{Path: palyra.TextOfPath("raw\xff\n"), Now: file(0, 0, "")},
	}
	for i := range all {
		all[i].Kind = KindOf(all[i].Was, all[i].Now)
	}
	return all
}

// A list is read back as it was written, and no other is taken for it. The digest is a
// promise to those who keep lists.
func TestListOfChanges(t *testing.T) {
	all := sampleChanges()
	e, text, err := List(all)
	if err != nil {
		t.Fatal(err)
	}
	want := palyra.Effects{
		Created: 2, Changed: 1, Removed: 1, Mode: 1, Link: 1, BytesWas: 9, BytesNow: 14,
		Digest: "sha256:2c2fc7507481f9b6b51bdd28acba908ed85d0ada75acc6f07c257189e9c6e778",
	}
	if e != want || e.Total() != int64(len(all)) {
		t.Errorf("%+v, want %+v\n%s", e, want, text)
	}
	got, err := Read(e, text)
	if err != nil || !reflect.DeepEqual(got, inOrder(all)) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, spoil := range map[string]func(*palyra.Effects, []byte) []byte{
		"another count": func(e *palyra.Effects, b []byte) []byte { e.Created++; e.Removed--; return b },
		"one more":      func(e *palyra.Effects, b []byte) []byte { e.Omitted++; return b },
		"other bytes":   func(e *palyra.Effects, b []byte) []byte { e.BytesNow++; return b },
		"another list":  func(_ *palyra.Effects, b []byte) []byte { return bytes.Replace(b, []byte(`"a"`), []byte(`"A"`), 1) },
		"cut off":       func(e *palyra.Effects, b []byte) []byte { b = b[:len(b)-1]; e.Digest = palyra.SumBytes(b); return b },
		"not in order": func(e *palyra.Effects, b []byte) []byte {
			b = bytes.Replace(b, []byte(`"a"`), []byte(`"z"`), 1)
			e.Digest = palyra.SumBytes(b)
			return b
		},
		"what was made first": func(e *palyra.Effects, b []byte) []byte {
			lines := bytes.SplitAfter(b, []byte("\n"))
			b = slices.Concat(slices.Concat(lines[4:6]...), slices.Concat(lines[:4]...))
			e.Digest = palyra.SumBytes(b)
			return b
		},
		"another kind": func(e *palyra.Effects, b []byte) []byte {
			b = bytes.Replace(b, []byte(`"removed"`), []byte(`"changed"`), 1)
			e.Digest, e.Removed, e.Changed = palyra.SumBytes(b), 0, 2
			return b
		},
	} {
		bad := e
		b := spoil(&bad, bytes.Clone(text))
		if _, err := Read(bad, b); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// What is over the bounds of a list is counted, and the list says so.
func TestListOfChangesIsBounded(t *testing.T) {
	long := strings.Repeat("x", 4000)
	all := make([]palyra.Change, 0, 5000)
	for i := range cap(all) {
		name := long + string(rune('A'+i/1000)) + strings.Repeat("y", i%1000)
		c := palyra.Change{Path: palyra.PathText(name), Now: &palyra.PathState{Kind: palyra.PathFile, Size: 1}}
		c.Kind = KindOf(c.Was, c.Now)
		all = append(all, c)
	}
	e, text, err := List(all)
	if err != nil || len(text) > MaxBytes || e.Omitted == 0 || e.Created != 5000 || e.BytesNow != 5000 {
		t.Fatalf("%+v, %d bytes, %v", e, len(text), err)
	}
	got, err := Read(e, text)
	if err != nil || int64(len(got))+e.Omitted != 5000 {
		t.Errorf("%d, %v", len(got), err)
	}

	// What was there before is in the list, however much a run makes besides.
	last := palyra.Change{Path: "z", Kind: palyra.ChangeRemoved, Was: &palyra.PathState{Kind: palyra.PathSocket, Mode: 0o755}}
	if e, text, err = List(append(all, last)); err != nil {
		t.Fatal(err)
	}
	if got, err = Read(e, text); err != nil || !reflect.DeepEqual(got[0], last) || e.Omitted == 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

// A file of which nobody knows the content is not the same one.
func TestKindOfUnread(t *testing.T) {
	s := &palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Size: 1 << 40}
	if got := KindOf(s, s); got != palyra.ChangeContent {
		t.Error(got)
	}
}
