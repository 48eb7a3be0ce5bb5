package e2e

import (
	"os"
	"path/filepath"
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
	out, _ := d.allowed(d.inRoom(nil, "/bin/sh", "-c", "touch started; while [ ! -e go ]; do sleep 0.05; done"))
	if err := <-changed; err != nil || out.ExitCode != 0 || len(out.Quarantined) > 0 {
		t.Fatalf("%v %+v", err, out)
	}
	for _, e := range d.entries() {
		if e.Kind == "alert.raised" && e.Body["path"] == ".envrc" && e.Body["call_id"] == string(out.CallID) && e.Body["reason_code"] == string(palyra.ReasonSealDenied) {
			return
		}
	}
	t.Errorf("nothing is on record\n%s", d.log)
}
