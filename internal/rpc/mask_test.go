package rpc

import (
	"strings"
	"testing"

	"palyra"
	"palyra/internal/mask"
	"palyra/internal/rpc/wire"
)

// What an error says, and its remedy, have no values of secrets in them.
func TestErrorsAreMasked(t *testing.T) {
	m := new(mask.Masker)
	m.Set(func(yield func(string, []byte) bool) { yield("token", []byte("the value of a token")) })
	a := &auth{&Server{Config: Config{Mask: m}}}
	err := palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no the value of a token").WithRemedy("make the value of a token")
	got := wire.FromStatus(a.status(t.Context(), wire.Access{}, err))
	if got.Text != "there is no [secret token]" || got.Remedy != "make [secret token]" || got.Code != palyra.NotFound {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(err.Text, "the value") {
		t.Error("the error itself was changed")
	}
}
