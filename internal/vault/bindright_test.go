package vault

import (
	"testing"

	"palyra"
	"palyra/internal/vault/keeper"
	"palyra/secrets"
)

// Who may not be shown a secret may not say where its value goes either.
func TestBindNeedsTheRightToSee(t *testing.T) {
	h := newHouse(t, t.TempDir())
	prod := secrets.Value{Scope: secrets.Global, Name: "prod", Value: palyra.NewSecret([]byte("owner only value 123"))}
	_, err := h.Put(t.Context(), prod, ada)
	h.ok(err)
	bob := secrets.By{Principal: "user:bob", Role: palyra.RoleAdmin}
	if _, _, err := h.Reveal(t.Context(), secrets.Global, "prod", 0, bob); err == nil {
		t.Fatal("the test has no use: an admin is shown the secret")
	}
	for _, name := range []string{"prod", "not-there-yet"} {
		b := secrets.Binding{Name: "mine", Secret: name, Kind: secrets.Header, Place: "X", Hosts: []string{"evil.example:443"}}
		if _, err := h.Bind(t.Context(), b, bob); palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An export that somebody made says where a value goes no more than they may say it here.
func TestImportedBindingsNeedTheRightToSee(t *testing.T) {
	there, h := newHouse(t, t.TempDir()), newHouse(t, t.TempDir())
	bob := secrets.By{Principal: "user:bob", Role: palyra.RoleAdmin}
	_, err := there.Put(t.Context(), secrets.Value{Scope: secrets.Global, Name: "bobs", Value: text("a value of bob's own")}, ada)
	h.ok(err)
	_, err = there.Bind(t.Context(), secrets.Binding{
		Name: "mine", Scope: secrets.Global, Secret: "prod", Kind: secrets.Header, Place: "X", Hosts: []string{"evil.example:443"},
	}, ada)
	h.ok(err)
	_, err = h.Put(t.Context(), secrets.Value{Scope: secrets.Global, Name: "prod", Value: text("owner only value 123")}, ada)
	h.ok(err)
	file := there.export(true)
	for _, mode := range []secrets.ImportMode{secrets.Add, secrets.Replace} {
		if _, err := h.take(file, mode, bob); palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if all, err := h.Bindings(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := h.take(file, secrets.Add, ada); err != nil {
		t.Errorf("who may see it cannot import it: %v", err)
	}
}

// A keeper that refused to begin with changes nothing about which one is next.
func TestRefusedRotateOfAnEmptyVault(t *testing.T) {
	h := newHouse(t, t.TempDir())
	if err := h.Rotate(t.Context(), keeper.Passphrase, palyra.NewSecret([]byte("short")), ada); err == nil {
		t.Fatal("the passphrase was taken")
	}
	_, err := h.Put(t.Context(), secrets.Value{Scope: secrets.Global, Name: "a", Value: palyra.NewSecret([]byte("owner only value 123"))}, ada)
	h.ok(err)
}
