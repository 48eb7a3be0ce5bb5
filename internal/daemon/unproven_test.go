package daemon

import (
	"errors"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/jobobject"
	"palyra/internal/sandbox/seatbelt"
)

// A tier that nobody has run is opened only by its own name, and its refusal says how.
func TestUnprovenTierNeedsItsName(t *testing.T) {
	for name, executor := range map[string]string{"seatbelt": seatbelt.Executor, "jobobject": jobobject.Executor} {
		opened := errors.New("opened")
		open := func() (sandbox.Backend, error) { return nil, opened }
		for _, setting := range []string{"off", "", "another"} {
			b, err := unproven(config.Process{Unproven: setting}, name, executor, open)
			if err != nil {
				t.Fatalf("%s with %q: %v", name, setting, err)
			}
			_, err = b.Probe(t.Context(), palyra.Limits{})
			why := palyra.AsError(err)
			if why.Reason != palyra.ReasonTierUnavailable || !strings.Contains(why.Remedy, `process.unproven = "`+name+`"`) {
				t.Errorf("%s with %q: %v, remedy %q", name, setting, err, why.Remedy)
			}
			if p, err := b.Start(t.Context(), sandbox.Job{}); p != nil || palyra.AsError(err).Reason != palyra.ReasonTierUnavailable {
				t.Errorf("%s with %q starts: %v, %v", name, setting, p, err)
			}
			if b.Tier() != palyra.TierC || b.Executor() != executor || b.Recover(t.Context()) != nil || b.Close() != nil {
				t.Errorf("%s: %s, %s", name, b.Tier(), b.Executor())
			}
		}
		if _, err := unproven(config.Process{Unproven: name}, name, executor, open); !errors.Is(err, opened) {
			t.Errorf("%s is not opened by its name: %v", name, err)
		}
	}
}
