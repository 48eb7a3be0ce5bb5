package seatbelt

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
)

// The package compiles for the system that it is for. That is all that can be
// shown anywhere else.
func TestCompilesForMacOS(t *testing.T) {
	cmd := exec.Command("go", "vet", ".")
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if runtime.GOOS != "darwin" {
		t.Log("UNPROVEN HERE: running programs under sandbox-exec needs macOS; this is " + runtime.GOOS)
	}
}

// Elsewhere the tier is refused, and what a job handed over is closed.
func TestRefusesElsewhere(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("UNPROVEN HERE: this is macOS")
	}
	b, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Probe(t.Context(), palyra.Limits{}); palyra.AsError(err).Reason != palyra.ReasonUnsupported ||
		palyra.AsError(err).Remedy == "" {
		t.Errorf("probe: %v", err)
	}
	var j sandbox.Job
	streams(t, &j)
	if p, err := b.Start(t.Context(), j); p != nil || palyra.AsError(err).Reason != palyra.ReasonUnsupported {
		t.Errorf("start: %v, %v", p, err)
	}
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr} {
		if _, err := f.Stat(); err == nil {
			t.Error("a stream stays open")
		}
	}
	if b.Executor() != "sandbox_tier_c_macos_sandbox_exec" || b.Tier() != palyra.TierC || b.Recover(t.Context()) != nil || b.Close() != nil {
		t.Errorf("%s, %s", b.Executor(), b.Tier())
	}
}
