package vault

import (
	"slices"
	"testing"
	"time"

	"palyra"
	"palyra/secrets"
)

// BenchmarkVaultUse is what it takes to lend a secret of a full vault to a run: 10,000 versions, of which the last of one is
// wanted by its binding.
func BenchmarkVaultUse(b *testing.B) {
	h := newHouse(b, b.TempDir())
	h.must(b)
	if _, err := h.Bind(b.Context(), secrets.Binding{
		Name: "api", Scope: secrets.Global, Secret: "s00555", Kind: secrets.Header, Place: "Authorization", Hosts: []string{"api.example:443"},
	}, ada); err != nil {
		b.Fatal(err)
	}
	p, plan := palyra.Proposal{Tool: "palyra.process.run"}, palyra.Plan{Bindings: []string{"api"}}
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		loans, err := h.Lend(b.Context(), p, plan, func([]byte) string { return "x" })
		times = append(times, time.Since(start))
		if err != nil || len(loans) != 1 {
			b.Fatal(loans, err)
		}
		loans[0].Value.Destroy()
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
}

// must fills the vault.
func (h *house) must(b *testing.B) {
	b.Helper()
	if got, err := h.take(sealText(b, manyLines(b, MaxSecrets)), secrets.Add, ada); err != nil || got.Versions != MaxSecrets {
		b.Fatalf("%+v, %v", got, err)
	}
}
