package daemon

import (
	"testing"

	"palyra"
	"palyra/internal/command"
	"palyra/internal/policy"
	"palyra/internal/policy/tables"
)

// Every preset comes with tests of its own, which hold whatever the configuration
// is, as they do when somebody starts from it.
func TestPresetsPassTheirOwnTests(t *testing.T) {
	for _, name := range policy.Presets() {
		files, err := policy.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		b, report := policy.Check(files)
		if b == nil {
			t.Fatal(name, report.Problems)
		}
		c := policy.Config{Bundle: b, Snapshot: palyra.Snapshot{MaxCallsPerRun: 64}, Analyse: command.Of}
		results, problems := tables.Run(t.Context(), c, b.Files())
		for _, p := range problems {
			t.Errorf("%s: %+v", name, p)
		}
		for _, r := range results {
			if !r.OK {
				t.Errorf("%s: %s:%d: %s: %s", name, r.File, r.Line, r.Name, r.Text)
			}
		}
		if len(results) < 25 {
			t.Errorf("%s has %d tests", name, len(results))
		}
	}
}
