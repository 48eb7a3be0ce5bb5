package vault

import (
	"fmt"
	"testing"

	"palyra/internal/mask"
	"palyra/secrets"
)

// What is put into the vault is masked from then on, in all its versions, and so is what was there when it is opened.
func TestKnownValues(t *testing.T) {
	h := newHouse(t, t.TempDir())
	m := new(mask.Masker)
	h.Known = m
	for i := range 3 {
		h.put("token", fmt.Sprintf("the value of version %d", i))
	}
	_, err := h.Put(t.Context(), secrets.Value{Scope: secrets.Global, Name: "pin", Value: text("not to be masked"), Unmasked: true}, ada)
	h.ok(err)
	wants := func(what string) {
		t.Helper()
		for i := range 3 {
			if got := m.String(fmt.Sprintf("it is the value of version %d", i)); got != "it is [secret token]" {
				t.Errorf("%s: %s", what, got)
			}
		}
		if m.Has("not to be masked") {
			t.Errorf("%s: what is unmasked is masked", what)
		}
	}
	wants("put")
	h.ok(h.Rotate(t.Context(), "", text(""), ada))
	wants("rotated")
	h.ok(h.Delete(t.Context(), secrets.Global, "token", 2, ada))
	wants("one of them was removed")
	h.Lock()
	wants("locked")
	m = new(mask.Masker)
	h.again()
	h.Known = m
	h.Open(t.Context())
	if !m.Has("the value of version 0") || m.Has("the value of version 1") || !m.Has("the value of version 2") {
		t.Error("another daemon does not know what the vault has")
	}
}

// A vault that cannot be opened keeps nobody from starting, and one without anything is not begun by it.
func TestOpenWithoutAKey(t *testing.T) {
	h := newHouse(t, t.TempDir())
	m := new(mask.Masker)
	h.Known = m
	h.Open(t.Context())
	if s, err := h.Status(t.Context()); err != nil || s.State != secrets.Empty || !m.Empty() {
		t.Errorf("%+v, %v", s, err)
	}
	h.put("token", "the value of a token")
	h.Keepers = map[string]KeyKeeper{}
	h.Lock()
	h.Open(t.Context())
	if !m.Has("the value of a token") {
		t.Error("what was known is not masked any more")
	}
}
