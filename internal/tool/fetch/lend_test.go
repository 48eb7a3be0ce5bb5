package fetch

import (
	"net/url"
	"slices"
	"testing"

	"palyra"
	"palyra/secrets"
)

// A binding of a kind that a fetch has no place for is refused before anything is planned with it.
func TestOnlyKindsThatAreFetched(t *testing.T) {
	at := "api.example:443"
	r := request{targets: []string{at}, body: []byte(`{"f":"{{B}}"}`)}
	r.first.hostPort, r.first.url = at, &url.URL{Scheme: "https", RawQuery: "f={{B}}"}
	for _, kind := range secrets.Kinds() {
		err := r.takes(secrets.Binding{Name: "B", Kind: kind, Place: "f", Hosts: []string{at}})
		if taken := err == nil; taken != slices.Contains(fetched, kind) {
			t.Errorf("%s: %v", kind, err)
		} else if !taken && palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: no remedy: %v", kind, err)
		}
	}
}
