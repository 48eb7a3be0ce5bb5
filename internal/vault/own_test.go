package vault

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/vault/keeper"
	"palyra/secrets"
)

// sealedBy seals a text.
func sealedBy(t *testing.T, s *Sealer, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := s.Seal(&out)
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func openedBy(s *Sealer, sealed []byte) (string, error) {
	r, err := s.Open(bytes.NewReader(sealed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), err
}

// TestSealingTakesNoKey holds that a locked vault seals and does not open, over restarts, rotations and a vault that is
// begun anew, and that nobody is told or shown the identity.
func TestSealingTakesNoKey(t *testing.T) {
	h := newHouse(t, t.TempDir())
	s := h.UndoSealer()
	h.ok(s.Ready())
	first := sealedBy(t, s, "first")
	h.put("mine", "a value of mine")
	h.ok(h.Rotate(t.Context(), keeper.Passphrase, text(passphrase), ada))
	h.again() // locked
	s = h.UndoSealer()
	second := sealedBy(t, s, "second")
	if got, err := openedBy(s, first); palyra.AsError(err).Reason != palyra.ReasonVaultLocked || got != "" {
		t.Errorf("locked: %q, %v", got, err)
	}
	h.ok(h.Unlock(t.Context(), text(passphrase)))
	for want, sealed := range map[string][]byte{"first": first, "second": second} {
		if got, err := openedBy(s, sealed); err != nil || got != want {
			t.Errorf("%q, %v", got, err)
		}
		sealed[len(sealed)-1] ^= 1
		if got, err := openedBy(s, sealed); err == nil {
			t.Errorf("changed, it opens: %q", got)
		}
		sealed[len(sealed)-1] ^= 1
	}
	all, err := h.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != "mine" {
		t.Errorf("listed: %v, %v", all, err)
	}
	if st, err := h.Status(t.Context()); err != nil || st.Versions != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	for _, scope := range []secrets.Scope{"daemon", "recipient", "binding"} {
		if _, _, err := h.Reveal(t.Context(), scope, "undo", 0, ada); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s is shown: %v", scope, err)
		}
		if _, err := h.Put(t.Context(), secrets.Value{Scope: scope, Name: "undo", Value: text("a value of mine")}, ada); err == nil {
			t.Errorf("%s is put", scope)
		}
		if err := h.Delete(t.Context(), scope, "undo", 0, ada); err == nil {
			t.Errorf("%s is deleted", scope)
		}
	}
	var export bytes.Buffer
	n, err := h.Export(t.Context(), &export, text(passphrase), true, ada)
	if err != nil || n != 1 {
		t.Errorf("exported: %d, %v", n, err)
	}
	h.ok(anew(h, export.Bytes()))
	if got, err := openedBy(s, first); err != nil || got != "first" {
		t.Errorf("begun anew: %q, %v", got, err)
	}
	h.ok(h.Rotate(t.Context(), keeper.Passphrase, text(passphrase), ada))
	h.again()
	h.ok(anew(h, export.Bytes())) // its key is lost
	if got, err := openedBy(h.UndoSealer(), first); err == nil || !strings.Contains(palyra.AsError(err).Remedy, "--forget") {
		t.Errorf("with a lost key: %q, %v", got, err)
	}
	third := sealedBy(t, h.UndoSealer(), "third")
	if got, err := openedBy(h.UndoSealer(), third); err != nil || got != "third" {
		t.Errorf("%q, %v", got, err)
	}
	if slices.Equal(first, third) {
		t.Error("the same")
	}
}

func anew(h *house, export []byte) error {
	_, err := h.Import(h.Context(), bytes.NewReader(export), int64(len(export)), text(passphrase), secrets.Anew, ada)
	return err
}

// TestRecipientsAreAuthentic holds that nobody has things sealed for another recipient unnoticed, once the vault is open.
func TestRecipientsAreAuthentic(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.ok(h.UndoSealer().Ready())
	other := newHouse(t, t.TempDir())
	to, err := other.recipient(t.Context(), "undo")
	h.ok(err)
	for _, query := range []string{
		`UPDATE vault_recipients SET recipient='` + to + `'`, `DELETE FROM vault_recipients`, `UPDATE vault_recipients SET name='other'`,
		`INSERT INTO vault_recipients VALUES ('more', '` + to + `')`,
	} {
		h.exec(`CREATE TABLE kept AS SELECT * FROM vault_recipients`)
		h.exec(query)
		h.again()
		if err := h.UndoSealer().Ready(); palyra.AsError(err).Reason != palyra.ReasonVaultDamaged {
			t.Errorf("%s: %v", query, err)
		}
		h.exec(`DELETE FROM vault_recipients`)
		h.exec(`INSERT INTO vault_recipients SELECT * FROM kept`)
		h.exec(`DROP TABLE kept`)
		h.again()
		h.ok(h.UndoSealer().Ready())
	}
	h.exec(`DELETE FROM vault_secrets WHERE scope='daemon'`)
	h.again()
	if err := h.UndoSealer().Ready(); palyra.AsError(err).Reason != palyra.ReasonVaultDamaged {
		t.Errorf("without the identity: %v", err)
	}
}

// TestAnExchangedRecipientIsNoticed holds that a recipient that was exchanged while the vault was locked, and put back
// before it was opened, is not used any longer, and is on record: whoever opened the vault.
func TestAnExchangedRecipientIsNoticed(t *testing.T) {
	other := newHouse(t, t.TempDir())
	theirs, err := other.recipient(t.Context(), "undo")
	other.ok(err)
	for how, open := range map[string]func(*house) error{
		"unlocked": func(h *house) error { return h.Unlock(t.Context(), text(passphrase)) },
		"the keeper is back": func(h *house) error {
			for name, k := range h.Keepers {
				if shut, is := k.(*shutKeeper); is {
					h.Keepers[name] = shut.KeyKeeper
				}
			}
			_, err := h.own(t.Context(), "undo")
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			h := newHouse(t, t.TempDir())
			ours, err := h.recipient(t.Context(), "undo")
			h.ok(err)
			if how == "unlocked" {
				h.ok(h.Rotate(t.Context(), keeper.Passphrase, text(passphrase), ada))
			}
			h.again()
			if how != "unlocked" {
				h.Keepers[keeper.KeyFile] = &shutKeeper{h.Keepers[keeper.KeyFile]}
			}
			for range 2 {
				if got, err := h.recipient(t.Context(), "undo"); err != nil || got != ours {
					t.Fatalf("locked: %q, %v", got, err)
				}
			}
			h.exec(`UPDATE vault_recipients SET recipient='` + theirs + `'`)
			if got, err := h.recipient(t.Context(), "undo"); err != nil || got != theirs {
				t.Fatalf("exchanged: %q, %v: what follows shows nothing", got, err)
			}
			h.exec(`UPDATE vault_recipients SET recipient='` + ours + `'`)
			h.ok(open(h))
			if got, err := h.recipient(t.Context(), "undo"); err != nil || got != ours {
				t.Errorf("open, it seals for %q, %v", got, err)
			}
			h.Lock()
			h.ok(open(h))
			alerts := 0
			h.ok(h.Journal.Bodies(t.Context(), palyra.AlertRaised{}.Kind(), func(body []byte) error {
				if strings.Contains(string(body), `"vault.recipient undo"`) {
					alerts++
				}
				return nil
			}))
			if alerts != 1 {
				t.Errorf("%d alerts", alerts)
			}
		})
	}
}

// shutKeeper gives no key.
type shutKeeper struct{ KeyKeeper }

func (*shutKeeper) Load(context.Context, string, palyra.Secret) (palyra.Secret, error) {
	return palyra.Secret{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, "the keeper does not answer")
}
