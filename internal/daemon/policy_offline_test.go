package daemon

import (
	"io"
	"log/slog"
	"testing"

	"palyra"
	"palyra/internal/bundle"
	"palyra/internal/config"
)

func offline(t *testing.T, dir, to string) (palyra.Digest, error) {
	t.Helper()
	cfg, err := config.Load(config.Options{Home: dir, Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := RollbackPolicy(t.Context(), Config{Settings: cfg, Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, to)
	if err == nil && a.By != "system:offline" {
		t.Errorf("by %s", a.By)
	}
	return a.Bundle, err
}

// Policies that let nobody in are left by the way back, which is on record and
// holds.
func TestRollbackOffline(t *testing.T) {
	dir := home(t)
	if _, err := offline(t, dir, bundle.Previous); palyra.CodeOf(err) != palyra.NotFound {
		t.Fatalf("on no state: %v", err)
	}
	d, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	first := d.policy.Bundle().Digest()
	if _, err := offline(t, dir, bundle.Previous); palyra.AsError(err).Reason != palyra.ReasonSecondDaemon {
		t.Errorf("beside a daemon: %v", err)
	}
	nobody := with(t, `@id("nobody") forbid (principal, action in Action::"operate", resource);`)
	_, locked, err := bundlesPart{d.bundles}.Apply(t.Context(), person(t, d, nil), nobody, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to   string
		want palyra.Digest
		name string
	}{{bundle.Previous, first, "ask"}, {string(locked.Bundle), locked.Bundle, "custom"}, {"strict", "", "strict"}} {
		got, err := offline(t, dir, c.to)
		if err != nil || c.want != "" && got != c.want {
			t.Fatalf("%s: %s, %v", c.to, got, err)
		}
		if d, err = open(t, dir); err != nil {
			t.Fatal(err)
		}
		if d.bundles.Name() != c.name || d.policy.Bundle().Digest() != got {
			t.Errorf("%s: %s", c.to, d.bundles.Name())
		}
		if _, err := d.journal.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		_ = d.Close()
	}
	for _, bad := range []string{"nonsense", string(palyra.SumBytes(nil))} {
		if _, err := offline(t, dir, bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}
