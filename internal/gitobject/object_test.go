package gitobject

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

const whole = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nparent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n" +
	"author Ann <ann@example.com> 1700000000 +0100\ncommitter Bob <bob@example.com> 1700000001 -0230\nencoding ISO-8859-1\n\nsubject\n\nbody\n"

const tag = "object 4b825dc642cb6eb9a060e54bf8d69288fbee4904\ntype commit\ntag v1\ntagger Ann <ann@example.com> 1700000000 +0000\n\nfirst\n"

func TestParse(t *testing.T) {
	o, err := Parse([]byte(whole))
	if err != nil || o.Kind != KindCommit || o.Author.Name != "Ann" || o.Committer.Email != "bob@example.com" || len(o.Parents) != 1 ||
		o.Encoding != "ISO-8859-1" || o.Message != "subject\n\nbody\n" {
		t.Errorf("%+v %v", o, err)
	}
	if o, err = Parse([]byte(tag)); err != nil || o.Kind != KindTag || o.Name != "v1" || o.TargetKind != KindCommit {
		t.Errorf("%+v %v", o, err)
	}
	for _, bad := range []string{
		"", "\n\n", strings.Replace(whole, "author", "auth0r", 1),
		strings.Replace(whole, "+0100", "+01000", 1), strings.Replace(whole, "4b8", "4B8", 1),
		strings.Replace(whole, "<ann@", "<<ann@", 1), strings.Replace(tag, "type commit", "type thing", 1),
		strings.Replace(tag, "\n\n", "\nmore x\n\n", 1),
		strings.Replace(whole, "\nparent", "\n parent", 1), whole + "\x00",
	} {
		if o, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, o)
		}
	}
}

// store is objects by their ids.
type store map[string][2]string

func (s store) add(kind, content string) string {
	id := ID(kind, []byte(content), strings.Repeat("0", 40))
	s[id] = [2]string{kind, content}
	return id
}

func (s store) fetch(_ context.Context, id string) (string, []byte, error) {
	return s[id][0], []byte(s[id][1]), nil
}

func (s store) tree(entries ...string) string {
	var b strings.Builder
	for i := 0; i < len(entries); i += 2 {
		raw, _ := hex.DecodeString(entries[i+1])
		b.WriteString(entries[i] + "\x00" + string(raw))
	}
	return s.add(KindTree, b.String())
}

// What a commit changes is told from objects that are what their ids say, and from no others.
func TestCompare(t *testing.T) {
	s := store{}
	a, b, c := s.add(KindBlob, "one\ntwo\n"), s.add(KindBlob, "one\n2\nthree\n"), s.add(KindBlob, "x\x00y")
	was := s.tree("100644 file", a, "100644 gone", a, "40000 same", s.tree("100644 f", a))
	now := s.tree("100644 bin", c, "100644 file", b, "40000 same", s.tree("100644 f", a))
	parent := s.add(KindCommit, "tree "+was+"\nauthor …")
	o := Object{Kind: KindCommit, Tree: now, Parents: []string{parent}}
	got := fmt.Sprint(Compare(t.Context(), o, s.fetch))
	want := "{[{bin added 0 0 true} {file changed 2 1 false} {gone removed 0 2 false}] 2 3 0 false}"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	lie := func(ctx context.Context, id string) (string, []byte, error) {
		if id == b {
			return KindBlob, []byte("one\ntwo\n"), nil
		}
		return s.fetch(ctx, id)
	}
	if d := Compare(t.Context(), o, lie); len(d.Files) != 3 || !d.Files[1].Binary {
		t.Errorf("another content is counted: %+v", d)
	}
	delete(s, was)
	if d := Compare(t.Context(), o, s.fetch); !d.Missing {
		t.Errorf("a tree that is not there: %+v", d)
	}
}

// What is read has a head whose every line is known, and a message.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(tag))
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := Parse(text)
		if err != nil {
			return
		}
		if !strings.HasSuffix(string(text), "\n\n"+o.Message) ||
			o.Author.Name != strings.NewReplacer("<", "", ">", "", "\n", "").Replace(o.Author.Name) {
			t.Fatalf("%q is read as %+v", text, o)
		}
	})
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte("100644 a\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Fuzz(func(t *testing.T, tree []byte) {
		id := ID(KindTree, tree, strings.Repeat("0", 40))
		Compare(t.Context(), Object{Kind: KindCommit, Tree: id}, func(_ context.Context, want string) (string, []byte, error) {
			if want == id {
				return KindTree, tree, nil
			}
			return "", nil, nil
		})
	})
}
