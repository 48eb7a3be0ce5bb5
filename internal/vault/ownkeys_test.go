package vault

import (
	"bytes"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/vault/keeper"
)

// Keys of the daemon's that were moved into the vault are there over rotations, starts and a vault that is begun anew; nobody
// lists, exports or is shown them, and a locked vault says so. A vault that holds some and does not open is not begun anew.
func TestTheDaemonsKeysAreKept(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.put("mine", "a value of mine")
	keys := h.OwnKeys(ada.Principal, ada.Signature)
	if there, err := keys.Has(t.Context(), "attestation"); err != nil || there {
		t.Errorf("%v, %v", there, err)
	}
	if _, err := keys.Load(t.Context(), "attestation"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("%v", err)
	}
	const private = "-----BEGIN PRIVATE KEY-----"
	h.ok(keys.Store(t.Context(), "attestation", text("an earlier key")))
	h.ok(keys.Store(t.Context(), "attestation", text(private)))
	loads := func() {
		t.Helper()
		got, err := h.DaemonKeys().Load(t.Context(), "attestation")
		h.ok(err)
		_ = got.Use(func(b []byte) error {
			if string(b) != private {
				t.Errorf("%q", b)
			}
			return nil
		})
	}
	loads()
	if list, err := h.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	var sealed bytes.Buffer
	n, err := h.Export(t.Context(), &sealed, text(passphrase), true, ada)
	if err != nil || n != 1 {
		t.Errorf("exported: %d, %v", n, err)
	}
	export := sealed.Bytes()
	h.ok(anew(h, export))
	loads()
	h.ok(h.Rotate(t.Context(), keeper.Passphrase, text(passphrase), ada))
	h.again() // locked
	keys = h.OwnKeys(ada.Principal, ada.Signature)
	if there, err := keys.Has(t.Context(), "attestation"); err != nil || !there {
		t.Errorf("locked: %v, %v", there, err)
	}
	_, load := keys.Load(t.Context(), "attestation")
	for what, err := range map[string]error{
		"load": load, "store": keys.Store(t.Context(), "attestation", text(private)), "remove": keys.Remove(t.Context(), "attestation"),
		"begin anew": anew(h, export),
	} {
		if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonVaultLocked || !strings.Contains(e.Remedy, "unlock") {
			t.Errorf("locked: %s: %v", what, err)
		}
	}
	h.ok(keys.Remove(t.Context(), "ca")) // there is none
	h.ok(h.Unlock(t.Context(), text(passphrase)))
	loads()
	h.ok(keys.Remove(t.Context(), "attestation"))
	if there, err := keys.Has(t.Context(), "attestation"); err != nil || there {
		t.Errorf("removed: %v, %v", there, err)
	}
	h.again()
	h.ok(anew(h, export)) // nothing of the daemon's is lost with it
}
