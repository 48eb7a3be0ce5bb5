package gitwire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra/internal/gitobject"
)

func line(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

const (
	a    = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	b    = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	zero = "0000000000000000000000000000000000000000"
)

// What git and a server say is read to the byte, and nothing beyond it.
func TestRead(t *testing.T) {
	refs := line(a+" refs/heads/main\x00report-status side-band-64k\n") + line(b+" refs/heads/old\n") + line(a+" .have\n") + "0000"
	r := strings.NewReader(refs + "rest")
	raw, have, err := ReadRefs(r)
	if err != nil || string(raw) != refs || r.Len() != 4 || len(have) != 2 || have["refs/heads/old"] != b {
		t.Fatalf("%q %v %v", raw, have, err)
	}
	push := line(a+" "+b+" refs/heads/main\x00report-status\n") + line(b+" "+zero+" refs/heads/old") + "0000"
	r = strings.NewReader(push + "PACK")
	raw, list, err := ReadUpdates(r, have)
	if err != nil || string(raw) != push || r.Len() != 4 || len(list) != 2 || list[0].New != b || list[1].Ref != "refs/heads/old" {
		t.Errorf("%q %+v %v", raw, list, err)
	}
	if _, list, err := ReadUpdates(strings.NewReader("0000"), have); err != nil || len(list) != 0 {
		t.Errorf("nothing to push: %v %v", list, err)
	}
}

// A push that could be read in two ways, or says what the server did not, is no push.
func TestRefused(t *testing.T) {
	have := map[string]string{"refs/heads/main": a}
	one := a + " " + b + " refs/heads/main\x00report-status"
	for what, text := range map[string]string{
		"no length":            "xxxx",
		"capitals":             "00Zz",
		"a length of 1":        "0001",
		"a length over all":    "ffff" + one,
		"cut off":              line(one)[:30],
		"no options":           line(a+" "+b+" refs/heads/main") + "0000",
		"options twice":        line(one) + line(a+" "+b+" refs/heads/x\x00more") + "0000",
		"a certificate":        line("push-cert\x00report-status\n") + "0000",
		"options for a server": line(a+" "+b+" refs/heads/main\x00push-options") + "0000",
		"options with a value": line(a+" "+b+" refs/heads/main\x00quiet push-options=1") + "0000",
		"another old":          line(b+" "+b+" refs/heads/main\x00") + "0000",
		"an old that is none":  line(b+" "+a+" refs/heads/none\x00") + "0000",
		"a new where one is":   line(zero+" "+b+" refs/heads/main\x00") + "0000",
		"nothing to nothing":   line(zero+" "+zero+" refs/heads/x\x00") + "0000",
		"twice the same":       line(one) + line(a+" "+a+" refs/heads/main") + "0000",
		"shallow":              line("shallow "+a) + line(one) + "0000",
		"shallow at the end":   line(one) + line("shallow "+a+"\n") + "0000",
		"no ref":               line(a+" "+b+" main\x00") + "0000",
		"a ref with dots":      line(zero+" "+b+" refs/heads/../main\x00") + "0000",
		"a ref with a line":    line(zero+" "+b+" refs/heads/a\nb\x00") + "0000",
		"a ref that turns":     line(zero+" "+b+" refs/heads/a\u202eb\x00") + "0000",
		"bytes":                line(zero+" "+b+" refs/heads/a\xffb\x00") + "0000",
		"capitals in an id":    line(a+" "+strings.ToUpper(b)+" refs/heads/main\x00") + "0000",
		"two kinds of ids":     line(zero+" "+b+b[:24]+" refs/heads/x\x00") + "0000",
	} {
		if _, list, err := ReadUpdates(strings.NewReader(text), have); err == nil {
			t.Errorf("%s: %+v", what, list)
		}
	}
	for what, text := range map[string]string{
		"an error": line("ERR access denied\n"), "twice the same": line(a+" refs/heads/x\x00\n") + line(b+" refs/heads/x\n") + "0000",
		"no id": line("main refs/heads/x\x00\n") + "0000",
	} {
		if _, refs, err := ReadRefs(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %v", what, refs)
		}
	}
}

// Only what certainly goes on from the old commit is a step forward.
func TestLook(t *testing.T) {
	objects := map[string]string{}
	commit := func(subject string, parents ...string) string {
		text := "tree " + a + "\n"
		for _, p := range parents {
			text += "parent " + p + "\n"
		}
		text += "author x <x@x> 1 +0000\ncommitter x <x@x> 1 +0000\n\n" + subject + "\n\nparent " + b + "\n"
		id := gitobject.ID(gitobject.KindCommit, []byte(text), a)
		objects[id] = text
		return id
	}
	fetch := func(_ context.Context, id string) (string, []byte, error) {
		if text, ok := objects[id]; ok {
			return gitobject.KindCommit, []byte(text), nil
		}
		return "", nil, errors.New("it is not there")
	}
	root := commit("root")
	one := commit("one", root)
	side := commit("side", root)
	merge := commit("merge", side, one)
	forged := commit("forged", root)
	objects[forged] = strings.Replace(objects[one], "one", "oNe", 1) // another object under its id
	for _, c := range []struct{ was, now, how string }{
		{root, one, HowForward},
		{one, merge, HowForward},
		{root, merge, HowForward},
		{one, side, HowForce},
		{one, root, HowForce},
		{one, forged, HowForce},
		{root, b, HowForce}, // which is not there
		{b, one, HowForce},  // in whose message it is named
		{zero, one, HowCreate},
		{one, zero, HowDelete},
	} {
		u := []Update{{Ref: "refs/heads/main", Old: c.was, New: c.now}}
		Look(t.Context(), u, fetch)
		if u[0].How != c.how {
			t.Errorf("%.6s → %.6s: %s, not %s", c.was, c.now, u[0].How, c.how)
		}
		plain := Request{Service: ServicePush, Updates: u}.Branch() == "main"
		if plain != slices.Contains([]string{HowCreate, HowForward}, c.how) {
			t.Errorf("%s is covered: %v", c.how, plain)
		}
	}
	u := []Update{{Ref: "refs/heads/main", Old: root, New: one}}
	if Look(t.Context(), u, fetch); !slices.Equal(u[0].Commits, []string{"one"}) {
		t.Errorf("shown are %q", u[0].Commits)
	}
	for _, r := range []Request{
		{Service: ServicePush, Updates: []Update{{Ref: "refs/tags/v1", How: HowCreate}}},
		{Service: ServicePush, Updates: []Update{{Ref: "refs/heads/a", How: HowForward}, {Ref: "refs/heads/b", How: HowForward}}},
		{Service: ServicePush, Updates: []Update{{Ref: "refs/heads/a"}}},
	} {
		if r.Branch() != "" || !r.Loses() {
			t.Errorf("%+v would be covered", r)
		}
	}
}

// A repository is one text, and one text is one repository.
func TestRemotes(t *testing.T) {
	good := Request{User: "git", At: "example.com:22", Path: "/srv/one.git", Service: ServicePush}
	if !good.Valid() {
		t.Fatal("a plain one is not valid")
	}
	for what, change := range map[string]func(*Request){
		"a user with a server": func(r *Request) { r.User = "git@example.com:22:/srv" },
		"a user that is none":  func(r *Request) { r.User = "" },
		"a user with a dash":   func(r *Request) { r.User = "-oProxyCommand=x" },
		"a path with a quote":  func(r *Request) { r.Path = "/srv/one.git'; touch 'x" },
		"a path with a line":   func(r *Request) { r.Path = "/srv\n/one" },
		"a path that turns":    func(r *Request) { r.Path = "/srv/\u202eone" },
		"an option as a path":  func(r *Request) { r.Path = "--strict" },
		"another service":      func(r *Request) { r.Service = "git-upload-archive" },
		"a fetch that pushes":  func(r *Request) { r.Service, r.Updates = ServiceFetch, []Update{{Ref: "refs/heads/x"}} },
	} {
		r := good
		if change(&r); r.Valid() {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

func FuzzUpdates(f *testing.F) {
	f.Add(line(a+" "+b+" refs/heads/main\x00report-status") + "0000")
	f.Fuzz(func(t *testing.T, text string) {
		raw, list, err := ReadUpdates(strings.NewReader(text), map[string]string{"refs/heads/main": a})
		if err != nil {
			return
		}
		if !strings.HasPrefix(text, string(raw)) {
			t.Errorf("%q is not what came", raw)
		}
		for _, u := range list {
			if !ValidRef(u.Ref) || !strings.Contains(string(raw), u.Old+" "+u.New+" "+u.Ref) {
				t.Errorf("%+v", u)
			}
		}
	})
}
