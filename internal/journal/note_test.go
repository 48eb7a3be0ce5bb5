package journal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"palyra"
)

// A keyring makes verifier lines with the standard library alone, by the words
// of Signer's comment.
func TestVerifierLine(t *testing.T) {
	s := newSigner(testOrigin, 1)
	key := append([]byte{1}, s.key.Public().(ed25519.PublicKey)...)
	hash := sha256.Sum256(append([]byte(testOrigin+"\n"), key...))
	want := fmt.Sprintf("%s+%x+%s", testOrigin, hash[:4], base64.StdEncoding.EncodeToString(key))
	if s.Verifier() != want {
		t.Errorf("%s, want %s", s.Verifier(), want)
	}
}

func signed(t testing.TB, s *testSigner, text string) string {
	t.Helper()
	ns, _, err := checkSigner(s)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := signText(ns, text)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func sampleHead() head {
	return head{origin: testOrigin, size: 12, root: chainStart("r"), chain: chainStart("c"), time: "2026-11-15T10:00:00Z"}
}

func TestCheckpoint(t *testing.T) {
	s := newSigner(testOrigin, 1)
	msg := signed(t, s, sampleHead().text())
	got, err := OpenCheckpoint(msg, []string{newSigner(testOrigin, 2).Verifier(), "", s.Verifier(), s.Verifier()})
	want := sampleHead().checkpoint()
	want.Note, want.Key = msg, s.Verifier()[:len(testOrigin)+9]
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for i := range len(msg) { // every byte is signed, or part of the signature's one spelling
		for _, flip := range []byte{1, 0x20, 0x80} {
			changed := msg[:i] + string([]byte{msg[i] ^ flip}) + msg[i+1:]
			if _, err := OpenCheckpoint(changed, []string{s.Verifier()}); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
				t.Errorf("byte %d changed by %x: %v", i, flip, err)
			}
		}
	}
	for i := range len(msg) {
		if _, err := OpenCheckpoint(msg[:i], []string{s.Verifier()}); err == nil {
			t.Errorf("cut to %d bytes and taken", i)
		}
	}
}

func TestCheckpointRefused(t *testing.T) {
	s, other := newSigner(testOrigin, 1), newSigner("other", 1)
	good := sampleHead().text()
	negative := sampleHead()
	negative.size = -1
	twice := signed(t, s, good)
	_, sig, _ := strings.Cut(twice, "\n\n")
	for name, c := range map[string]struct {
		msg  string
		keys []string
	}{
		"no keys":            {signed(t, s, good), nil},
		"malformed key":      {signed(t, s, good), []string{"x"}},
		"unknown key":        {signed(t, s, good), []string{newSigner(testOrigin, 2).Verifier()}},
		"of another journal": {signed(t, other, good), []string{other.Verifier()}},
		"signed twice":       {twice + sig, []string{s.Verifier()}},
		"and by a stranger":  {twice + "— stranger " + base64.StdEncoding.EncodeToString(make([]byte, 68)) + "\n", []string{s.Verifier()}},
		"size padded":        {signed(t, s, strings.Replace(good, "\n12\n", "\n012\n", 1)), []string{s.Verifier()}},
		"size negative":      {signed(t, s, negative.text()), []string{s.Verifier()}},
		"size missing":       {signed(t, s, strings.Replace(good, "\n12\n", "\n\n", 1)), []string{s.Verifier()}},
		"a line more":        {signed(t, s, good+"more\n"), []string{s.Verifier()}},
		"a line less":        {signed(t, s, good[:strings.Index(good, "time ")]), []string{s.Verifier()}},
		"no time":            {signed(t, s, strings.Replace(good, "2026-11", "noon", 1)), []string{s.Verifier()}},
		"other words":        {signed(t, s, strings.Replace(good, "chain ", "train ", 1)), []string{s.Verifier()}},
		"a seal":             {signed(t, s, sealText(testOrigin, 1, 2, make([]byte, 32))), []string{s.Verifier()}},
	} {
		if got, err := OpenCheckpoint(c.msg, c.keys); err == nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
}

// Base64 has spare bits: the last letter of a signature has other spellings that
// decode to the same bytes. The note package takes them; we do not.
func TestSignatureSpelling(t *testing.T) {
	s := newSigner(testOrigin, 1)
	msg := signed(t, s, sampleHead().text())
	end := strings.LastIndex(msg, "=") - 1
	respelt := 0
	for c := range 128 {
		other := msg[:end] + string(rune(c)) + msg[end+1:]
		if other == msg {
			continue
		}
		v, _ := note.NewVerifier(s.Verifier())
		if _, err := note.Open([]byte(other), note.VerifierList(v)); err == nil {
			respelt++
		}
		if _, err := OpenCheckpoint(other, []string{s.Verifier()}); err == nil {
			t.Errorf("another spelling was taken: %q", rune(c))
		}
	}
	if respelt == 0 {
		t.Error("there was no other spelling: the test proves nothing")
	}
}

func FuzzCheckpoint(f *testing.F) {
	s := newSigner(testOrigin, 1)
	msg := signed(f, s, sampleHead().text())
	f.Add(msg)
	f.Add("")
	f.Add("a\n1\nb\nchain c\ntime d\n\n— x y\n")
	f.Fuzz(func(t *testing.T, other string) {
		if got, err := OpenCheckpoint(other, []string{s.Verifier()}); err == nil && other != msg {
			t.Errorf("forged: %+v", got)
		}
		if h, err := parseHead(other); err == nil && h.text() != other {
			t.Errorf("%q is read as %q", other, h.text())
		}
	})
}
