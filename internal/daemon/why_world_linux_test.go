package daemon

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/dotenv"
	"palyra/internal/tiers"
)

// celled is a daemon that can plan programs in both tiers.
func celled(t *testing.T, flags map[string]string) *Daemon {
	t.Helper()
	d, err := New(t.Context(), withCell(t, flags))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// withCell is the configuration of a daemon that has palyra-cell.
func withCell(t *testing.T, flags map[string]string) Config {
	t.Helper()
	dir := t.TempDir()
	cell := filepath.Join(dir, "palyra-cell")
	build := exec.Command("go", "build", "-o", cell, "palyra/cmd/palyra-cell")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(cell)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"process.dir": filepath.Join(dir, "cells"), "process.cell": cell, "process.warm": "0"}
	maps.Copy(all, flags)
	cfg, err := config.Load(config.Options{Home: home(t), Env: []string{}, Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Settings: cfg, Version: "test", CellDigest: fmt.Sprintf("%x", sha256.Sum256(raw)),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// A daemon that cannot be made after its tiers were opened leaves nothing of them running.
func TestTheTiersEndWithAFailedStart(t *testing.T) {
	c := withCell(t, nil)
	c.Settings.ToolCall.OutputBytes = -1 // the planner, which comes after the tiers, refuses it
	before := goleak.IgnoreCurrent()
	if _, err := New(t.Context(), c); err == nil {
		t.Fatal("there is a daemon")
	}
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

// Programs are planned in an imagined world as they are here, down to the digest:
// what holds in a tier is part of the plan.
func TestTheSameWorldForPrograms(t *testing.T) {
	d := celled(t, map[string]string{"egress.private_ranges": "10.0.0.0/8", "egress.mode": "preflight"})
	w, err := d.imaginedWorld(d.Settings)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	planned := 0
	for _, args := range []string{
		`{"command":"ls","tier":"b"}`, `{"command":"ls","tier":"c"}`, `{"command":"ls"}`, `{"script":"ls | wc -l"}`,
		`{"command":"git","args":["status"],"tier":"c","egress":["a.example:443"]}`, `{"command":"ls","limits":{"cpu_ms":5},"timeout_ms":7}`,
		`{"command":"ls","tier":"b","egress":["a.example:443"]}`, `{"command":"ls","require_limits":true}`, `{"command":"ls","profile":"moon"}`,
	} {
		p := proposal("palyra.process.run", args)
		p.Workspace, p.PeerUID = dir, int64(os.Geteuid())
		same(t, d, w, p)
		if c := (palyra.Call{Proposal: p}); w.PlanCall(t.Context(), &c) == nil {
			planned++
		}
	}
	if planned < 5 {
		t.Errorf("%d plans: the test proves nothing", planned)
	}
}

// A tier that must be known to hold, and is not, is planned where it need not be,
// as a daemon that does not demand it would.
func TestPostureIsTried(t *testing.T) {
	d := celled(t, map[string]string{"process.posture": "require"})
	p := proposal("palyra.process.run", `{"command":"ls","tier":"b"}`)
	p.Workspace = t.TempDir()
	e := explained(t, d, "", p)
	if e.ReasonCode != palyra.ReasonPosture || len(e.Flips) != 2 || e.Flips[0].Change != `process.posture = "off"` || !e.Flips[0].Verified ||
		e.Flips[1].Verified {
		t.Fatalf("%s %+v", e.ReasonCode, e.Flips)
	}
	off := d.Settings
	off.Process.Posture = "off"
	w, err := d.imaginedWorld(off)
	if err != nil {
		t.Fatal(err)
	}
	c := palyra.Call{Proposal: p}
	if err := w.PlanCall(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(c.Plan.Enforcement)
	want, failed := tiers.Trials{Tiers: d.path.tiers}.Promise(t.Context(), palyra.TierB, c.Plan.Limits)
	want.Mechanisms = append(want.Mechanisms, dotenv.Mechanism) // which the tool adds, and not the tier
	slices.Sort(want.Mechanisms)
	if text, _ := json.Marshal(want); err != nil || failed != nil || len(raw) == 0 || len(want.Mechanisms) == 0 ||
		string(raw) != string(text) {
		t.Errorf("%s, want %s, %v", raw, text, failed)
	}
}

// Limits are tried as they would hold: a call that asks for more than there is gets
// by where there is as much.
func TestLimitsAreTried(t *testing.T) {
	d := celled(t, nil)
	p := proposal("palyra.process.run", `{"command":"ls","tier":"b","limits":{"processes":300,"open_files":2000}}`)
	p.Workspace = t.TempDir()
	e := explained(t, d, "", p)
	want := "process.processes = 300\nprocess.open_files = 2000"
	found := false
	for _, f := range e.Flips {
		found = found || f.Change == want && f.Verified && f.Becomes == palyra.Ask
	}
	if e.ReasonCode != palyra.ReasonMalformedInput || !found {
		t.Errorf("%s %+v", e.ReasonCode, e.Flips)
	}
}
