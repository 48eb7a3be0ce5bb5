package vault

import (
	"testing"

	"palyra"
	"palyra/secrets"
)

// A first value is refused where there is another already, and changes nothing.
func TestFirstValueTakesNobodysPlace(t *testing.T) {
	h := newHouse(t, t.TempDir())
	first := func(value string) error {
		_, err := h.Put(t.Context(), secrets.Value{Scope: secrets.Global, Name: "token", Value: text(value), First: true}, ada)
		return err
	}
	h.ok(first("the value that was first"))
	if e := palyra.AsError(first("a value that came later")); e == nil || e.Reason != palyra.ReasonExists || e.Remedy == "" {
		t.Errorf("%+v", e)
	}
	if got, err := h.get("token"); err != nil || got != "the value that was first" {
		t.Errorf("%q, %v", got, err)
	}
	h.put("token", "a value that came later")
	if got, err := h.get("token"); err != nil || got != "a value that came later" {
		t.Errorf("without first: %q, %v", got, err)
	}
}
