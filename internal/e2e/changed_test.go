//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"palyra"
)

// Somebody else may change what is sealed while a run is under way; the run is
// not blamed for it, and the journal names it.
func TestASealedPathChangedFromOutsideIsOnRecord(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	path := d.put(".envrc", "was\n")
	d.mustStart()
	changed := make(chan error, 1)
	go func() {
		for tick := time.Tick(20 * time.Millisecond); ; <-tick {
			if _, err := os.Stat(filepath.Join(d.work, "started")); err == nil {
				break
			}
			if t.Context().Err() != nil {
				return
			}
		}
		err := os.WriteFile(path, []byte("is\n"), 0o600)
		d.put("go", "")
		changed <- err
	}()
	out, _ := d.allowed(d.inRoom(map[string]any{"live": true}, "/bin/sh", "-c", "touch started; while [ ! -e go ]; do sleep 0.05; done"))
	if err := <-changed; err != nil || out.ExitCode != 0 || len(out.Quarantined) > 0 {
		t.Fatalf("%v %+v", err, out)
	}
	d.alerted(out, palyra.ReasonSealDenied, ".envrc")

	// What a run that is not staged brings in by git's index is in its outcome, its attestation and the
	// journal; of one that is, it is asked about first.
	d.project()
	out, _ = d.allowed(d.inRoom(map[string]any{"live": true}, "/bin/sh", "-c",
		`blob=$(echo evil | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$blob,.github/workflows/evil.yml`))
	want := []string{"sealed_path_committed: .github/workflows/evil.yml"}
	if p := predicate(t, out); out.ExitCode != 0 || !slices.Equal(out.Left, want) || !slices.Equal(p.Left, want) {
		t.Fatalf("%+v", out)
	}
	d.alerted(out, palyra.ReasonSealedCommitted, ".github/workflows/evil.yml")
}

// alerted holds the journal to an alert.
func (d *daemon) alerted(out palyra.Outcome, why palyra.Reason, path string) {
	d.t.Helper()
	for _, e := range d.entries() {
		if e.Kind == "alert.raised" && e.Body["path"] == path && e.Body["call_id"] == string(out.CallID) && e.Body["reason_code"] == string(why) {
			return
		}
	}
	d.t.Errorf("nothing is on record\n%s", d.log)
}
