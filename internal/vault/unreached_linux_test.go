package vault

import (
	"testing"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/vault/keeper"
	"palyra/secrets"
)

// A key that a keeper was never handed, because it was not there, is nothing to forget: nothing warns of it ever after.
func TestAKeeperThatIsNotThereLeavesNothing(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	h := newHouse(t, t.TempDir())
	h.Keepers[keeper.SecretService] = keeper.All(h.dir)[keeper.SecretService]
	_, err := h.Put(t.Context(), secrets.Value{Scope: secrets.Global, Name: "a", Value: text("the value of a secret")}, ada)
	h.ok(err)
	if err := h.Rotate(t.Context(), keeper.SecretService, palyra.Secret{}, ada); palyra.CodeOf(err) != palyra.Unavailable ||
		palyra.AsError(err).Remedy == "" {
		t.Fatal(err)
	}
	var listed int
	h.ok(h.db.Read(t.Context(), func(tx *store.Tx) error { return tx.Get(`SELECT count(*) FROM vault_keys`, nil, &listed) }))
	if listed != 1 {
		t.Errorf("%d keys are listed", listed)
	}
	h.ok(h.Rotate(t.Context(), "", palyra.Secret{}, ada))
}
