//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// The doctor tries both tiers out on this machine, everything holds, the result
// is signed and verifies without a daemon, and attestations carry its digest. A
// daemon that demands it refuses before and runs after.
func TestDoctor(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	out, _ := d.allowed(d.program("/bin/true"))
	if p := predicate(t, out); p.PostureDigest != "" {
		t.Errorf("a posture before anything was tried: %s", p.PostureDigest)
	}
	said, err := d.palyra("sandbox", "doctor", "--json").Output()
	var doctor palyra.SignedPosture
	if jerr := json.Unmarshal(said, &doctor); err != nil || jerr != nil {
		t.Fatalf("%v, %v: %s\n%s", err, jerr, said, d.log)
	}
	if !doctor.Posture.Held() || len(doctor.Posture.Tiers) != 2 || doctor.Digest == "" {
		t.Errorf("%+v", doctor.Posture)
	}
	file, trust := filepath.Join(d.work, "..", "posture.json"), filepath.Join(d.work, "..", "trust.json")
	keys, err := d.palyra("keys", "export").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string][]byte{file: said, trust: keys} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.palyra("sandbox", "verify", file, "--key", trust).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, got)
	}
	bad := strings.Replace(string(said), `"held":true`, `"held":false`, 1)
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.palyra("sandbox", "verify", file, "--key", trust).CombinedOutput(); err == nil {
		t.Errorf("a changed posture verifies: %s", got)
	}
	again, err := d.client(client.AgentDoor).Call(t.Context(), d.program("/bin/true"), nil) // under the session's grant
	if err != nil || predicate(t, again).PostureDigest != doctor.Digest {
		t.Errorf("%v, attested %+v", err, again)
	}
	d.verify()
}
