package jobobject

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
func TestCompilesForWindows(t *testing.T) {
	cmd := exec.Command("go", "vet", ".")
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if runtime.GOOS != "windows" {
		t.Log("UNPROVEN HERE: running programs in a job object needs Windows; this is " + runtime.GOOS)
	}
}

// Elsewhere the tier is refused, and what a job handed over is closed.
func TestRefusesElsewhere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("UNPROVEN HERE: this is Windows")
	}
	b, err := New(Config{HostNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Probe(t.Context(), palyra.Limits{}); palyra.AsError(err).Reason != palyra.ReasonUnsupported ||
		palyra.AsError(err).Remedy == "" {
		t.Errorf("probe: %v", err)
	}
	j := sample(t)
	if p, err := b.Start(t.Context(), j); p != nil || palyra.AsError(err).Reason != palyra.ReasonUnsupported {
		t.Errorf("start: %v, %v", p, err)
	}
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr} {
		if _, err := f.Stat(); err == nil {
			t.Error("a stream stays open")
		}
	}
	if b.Executor() != "sandbox_tier_c_windows_job_object" || b.Tier() != palyra.TierC || b.Recover(t.Context()) != nil || b.Close() != nil {
		t.Errorf("%s, %s", b.Executor(), b.Tier())
	}
}

// What is promised does not say that the network is held, and a plan that was
// promised so is refused.
func TestPromiseIsHonest(t *testing.T) {
	e := enforcement()
	if e.Mode != "none" || e.Limits["open_files"] != "none" || e.Limits["file_size"] != "none" || e.Limits["disk"] != "none" {
		t.Errorf("%+v", e)
	}
	if err := sandbox.CheckPromise(e, enforcement()); err != nil {
		t.Error(err)
	}
	for name, more := range map[string]palyra.Enforcement{
		"mode":      {Mode: "strict"},
		"mechanism": {Mechanisms: []string{"sealed_paths"}},
		"files":     {Limits: map[string]palyra.Hold{"file_size": "rlimit"}},
	} {
		if err := sandbox.CheckPromise(e, more); palyra.AsError(err).Reason != palyra.ReasonWeakEnforcement {
			t.Errorf("%s: %v", name, err)
		}
	}
	if no := networkRefusal(); no.Reason != palyra.ReasonTierUnavailable || no.Remedy == "" {
		t.Errorf("%+v", no)
	}
}
