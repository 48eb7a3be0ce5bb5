package masked

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/mask"
)

// commit is a call as each signature of a commit is one, with addresses of mail in it.
func commit(note string) palyra.Call {
	const ada = "Ada <ada@example.org>"
	text := "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor " + ada + " 1 +0000\ncommitter " + ada + " 1 +0000\n\n" + note
	args, err := json.Marshal(map[string]string{"payload": text, "author": ada, "message": strings.Repeat(note+" & more\n", 20)})
	if err != nil {
		panic(err)
	}
	c := palyra.Call{ID: "C1", Proposal: palyra.Proposal{Arguments: args}}
	c.Plan.Arguments = args
	return c
}

// A value that JSON writes otherwise is masked in a call all the same, whichever way it stands there.
func TestValuesThatJSONEscapesAreMasked(t *testing.T) {
	for _, value := range []string{
		"a<secret>&of 20 bytes", `quoted "secret" of it\`, "two\nlines of a\tsecret", "ключ, который никто", "plain-secret-of-this",
	} {
		m := &mask.Masker{}
		m.Set(maps.All(map[string][]byte{"token": []byte(value)}))
		c := (Words{m}).Call(commit("before " + value + " after"))
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		shown := struct{ Payload, Message string }{}
		if err := json.Unmarshal(c.Plan.Arguments, &shown); err != nil {
			t.Errorf("%q: %v", value, err)
		}
		if strings.Contains(shown.Payload+shown.Message, value) || !c.Plan.Masked || !strings.Contains(string(text), "secret token") {
			t.Errorf("%q stands in %s", value, text)
		}
		if !strings.Contains(shown.Payload, "Ada <ada@example.org>") {
			t.Errorf("%q: the rest is not as it was: %s", value, shown.Payload)
		}
		if was := commit("nothing in it"); (Words{m}).Call(was).Plan.Masked {
			t.Errorf("%q: a call without it is masked", value)
		}
	}
}

// BenchmarkCall masks a call with addresses of mail and nothing to mask, as a signature of a commit is one.
func BenchmarkCall(b *testing.B) {
	m := &mask.Masker{}
	m.Set(maps.All(map[string][]byte{"token": []byte("a-value-that-is-not-there")}))
	c := commit("a message")
	args, _ := json.Marshal(map[string]any{"payload": []byte(c.Plan.Arguments)}) // as it comes: in base64
	c.Proposal.Arguments, c.Plan.Arguments = args, args
	c.Plan.Detail.Diff, c.Plan.Argv = "Ada <ada@example.org>", []string{"commit", "Ada <ada@example.org>", "main"}
	for b.Loop() {
		(Words{m}).Call(c)
	}
}
