package access

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"palyra"
)

func text(s palyra.Secret) (out string) {
	_ = s.Use(func(b []byte) error { out = string(b); return nil })
	return out
}

func TestAgentLife(t *testing.T) {
	b := newBench(t)
	a, token, err := b.AddAgent(t.Context(), "ci", "", b.sign(b.owner, nil))
	if err != nil || a.Principal != "agent:ci" || a.Owner != "user:alice" {
		t.Fatalf("%+v %v", a, err)
	}
	got, err := b.Bearer(t.Context(), token)
	if err != nil || got.Principal != "agent:ci" || got.Owner != "user:alice" {
		t.Errorf("%+v %v", got, err)
	}
	b.open() // after a restart too
	if _, err := b.Bearer(t.Context(), token); err != nil {
		t.Error(err)
	}
	if err := b.RemoveAgent(t.Context(), "agent:ci", b.sign(b.owner, nil)); err != nil {
		t.Fatal(err)
	}
	_, err = b.Bearer(t.Context(), token)
	b.wants(err, palyra.ReasonBadCredential)
	b.wants(b.RemoveAgent(t.Context(), "agent:ci", b.sign(b.owner, nil)), palyra.ReasonNotFound)
	_, _, err = b.AddAgent(t.Context(), "ci", "", b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonExists) // a name is never given twice
	if all, err := b.Agents(t.Context()); err != nil || len(all) != 1 || all[0].RemovedAt.IsZero() {
		t.Errorf("%+v %v", all, err)
	}
}

func TestTokenIsNowhereInTheState(t *testing.T) {
	b := newBench(t)
	_, token, err := b.AddAgent(t.Context(), "ci", "", b.sign(b.owner, nil))
	if err != nil {
		t.Fatal(err)
	}
	secret := text(token)
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(b.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), secret) {
			t.Error("the token stands in the state")
		}
	}
	for _, e := range b.journal.events {
		if strings.Contains(fmt.Sprintf("%+v", e), secret) {
			t.Error("the token stands in the journal")
		}
	}
}

func TestAgentOwners(t *testing.T) {
	b := newBench(t)
	bob := b.add("bob", palyra.RoleAdmin)
	_, _, err := b.AddAgent(t.Context(), "x", "user:alice", b.sign(bob, nil))
	b.wants(err, palyra.ReasonPermission) // else bob could approve "as another person"
	if a, _, err := b.AddAgent(t.Context(), "x", "", b.sign(bob, nil)); err != nil || a.Owner != "user:bob" {
		t.Errorf("%+v %v", a, err)
	}
	if a, _, err := b.AddAgent(t.Context(), "y", "user:bob", b.sign(b.owner, nil)); err != nil || a.Owner != "user:bob" {
		t.Errorf("%+v %v", a, err)
	}
	_, _, err = b.AddAgent(t.Context(), "z", "user:nobody", b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonNotFound)
}

func TestAgentNames(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"", "Local", "a b", "-x", ".x", "a/b", "é", strings.Repeat("a", 65), "agent:x", "a\n"} {
		if _, _, err := b.AddAgent(t.Context(), name, "", b.sign(b.owner, nil)); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	_, _, err := b.AddAgent(t.Context(), LocalName, "", b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonExists)
}

func TestLocalAgent(t *testing.T) {
	b := newBench(t)
	a, err := b.LocalAgent(t.Context())
	if err != nil || a.Principal != "agent:local" || a.Owner != "user:alice" {
		t.Errorf("%+v %v", a, err)
	}
	eve := b.add("eve", palyra.RoleOwner)
	if err := b.RemoveOperator(t.Context(), b.owner.KeyID, b.sign(eve, nil)); err != nil {
		t.Fatal(err)
	}
	if a, err := b.LocalAgent(t.Context()); err != nil || a.Owner != "user:eve" {
		t.Errorf("%+v %v", a, err)
	}
}

func TestTokens(t *testing.T) {
	b := newBench(t)
	seen := map[string]bool{}
	for range 64 {
		s, digest := newToken()
		tok := text(s)
		if len(tok) != tokenLen || seen[tok] {
			t.Fatalf("token %q", tok)
		}
		seen[tok] = true
		if d, ok := parseToken([]byte(tok)); !ok || d != digest {
			t.Errorf("%q does not parse", tok)
		}
		_, err := b.Bearer(t.Context(), s) // well-formed, but nobody's
		b.wants(err, palyra.ReasonBadCredential)
	}
	s, _ := newToken()
	tok := text(s)
	for i := range len(tok) {
		other := []byte(tok)
		other[i] ^= 1
		if _, ok := parseToken(other); ok {
			t.Errorf("changed at %d and still accepted", i)
		}
	}
	for _, bad := range []string{"", "plyr_", tok + "0", tok[:len(tok)-1], strings.ToUpper(tok), " " + tok, tok + "\n"} {
		_, err := b.Bearer(t.Context(), palyra.NewSecret([]byte(bad)))
		b.wants(err, palyra.ReasonBadCredential)
	}
	_, err := b.Bearer(t.Context(), palyra.Secret{})
	b.wants(err, palyra.ReasonBadCredential)
}

// Property: only texts with the right prefix, length, alphabet and checksum
// reach the table, and one text has one digest.
func FuzzParseToken(f *testing.F) {
	s, _ := newToken()
	f.Add([]byte(text(s)))
	f.Add([]byte("plyr_"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, ok := parseToken(raw)
		if !ok {
			return
		}
		body := string(raw[len(tokenPrefix):])
		if len(raw) != tokenLen || tokenSum(body[:secretChars]) != body[secretChars:] || d != palyra.SumBytes(raw) {
			t.Fatalf("%q accepted", raw)
		}
	})
}

// Who has less ends neither an owner's agent nor an owner's lesser key.
func TestNobodyEndsWhatIsAboveThem(t *testing.T) {
	b := newBench(t)
	bob := b.add("bob", palyra.RoleAdmin)
	_, _, err := b.AddAgent(t.Context(), "ci", "", b.sign(b.owner, nil))
	b.must(err)
	lesser := newPerson("alice", palyra.RoleApprover)
	_, err = b.AddOperator(t.Context(), lesser.Operator, b.sign(b.owner, nil))
	b.must(err)
	b.wants(b.RemoveAgent(t.Context(), "agent:ci", b.sign(bob, nil)), palyra.ReasonPermission)
	b.wants(b.RemoveOperator(t.Context(), lesser.KeyID, b.sign(bob, nil)), palyra.ReasonPermission)
	b.must(b.RemoveAgent(t.Context(), "agent:ci", b.sign(b.owner, nil)))
	b.must(b.RemoveOperator(t.Context(), lesser.KeyID, b.sign(b.owner, nil)))
}

// When agent:local becomes somebody else's, what it had as the other's ends.
func TestLocalAgentEndsWithItsOwner(t *testing.T) {
	for name, end := range map[string]func(b *bench, eve person) error{
		"removed": func(b *bench, eve person) error { return b.RemoveUser(b.t.Context(), "user:alice", b.sign(eve, nil)) },
		"changed": func(b *bench, eve person) error { return b.changeUser(eve, "alice", palyra.RoleAdmin) },
		"key": func(b *bench, eve person) error {
			return b.RemoveOperator(b.t.Context(), b.owner.KeyID, b.sign(eve, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			eve := b.add("eve", palyra.RoleOwner)
			got := b.ends()
			b.must(end(b, eve))
			if !slices.Contains(*got, "agent:local") {
				t.Errorf("%v", *got)
			}
			*got = nil
			_, err := b.addUser(eve, "dan", palyra.RoleViewer)
			b.must(err)
			b.must(b.RemoveUser(t.Context(), "user:dan", b.sign(eve, nil)))
			if slices.Contains(*got, "agent:local") {
				t.Errorf("it is still eve's: %v", *got)
			}
		})
	}
}
