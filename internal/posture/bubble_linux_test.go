package posture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/egress"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bubble"
	"palyra/internal/sandbox/celltest"
)

// tierC opens the real tier C with a strict guard.
func tierC(t testing.TB, cgroup string) *tiers {
	t.Helper()
	path, digest := celltest.Cell(t)
	dir := celltest.TempDir(t)
	if err := os.Mkdir(filepath.Join(dir, "quarantine"), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := bubble.New(bubble.Config{
		Cell: path, Digest: digest, Cgroup: cgroup, StateID: celltest.StateID(), Log: celltest.Log(t), Tmp: 16 << 20,
		Dir: filepath.Join(dir, "runs"), Quarantine: filepath.Join(dir, "quarantine"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	g, err := egress.New(egress.Config{Mode: "strict", Now: time.Now, Log: celltest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	return &tiers{t: t, backends: map[palyra.Tier]sandbox.Backend{palyra.TierC: b}, guard: g}
}

// TestTierC: the real tier C holds against every probe, with cgroups and without,
// for ourselves and for others.
func TestTierC(t *testing.T) {
	for name, who := range users(t) {
		for _, cgroup := range []string{"auto", "off"} {
			t.Run(name+"/"+cgroup, func(t *testing.T) {
				p, err := Check(t.Context(), host(t, tierC(t, cgroup), who[0], who[1], palyra.TierC))
				if err != nil {
					t.Fatal(err)
				}
				expectHeld(t, p, palyra.TierC)
				for _, pr := range tierOf(p, palyra.TierC).Probes {
					if pr.Name == "egress" && strings.Contains(pr.Detail, "(0 tries") {
						t.Errorf("no door was tried: %+v", pr)
					}
				}
			})
		}
	}
}

// TestAHoleInTierC: a tier that has everything but one thing is seen to lack that
// one thing.
func TestAHoleInTierC(t *testing.T) {
	own := users(t)["own"]
	for name, c := range map[string]struct {
		change func(*sandbox.Job)
		falls  []string
	}{
		"no seals":        {func(j *sandbox.Job) { j.Seals = nil }, []string{"sealed_path", "new_sealed_path"}},
		"more memory":     {func(j *sandbox.Job) { j.Limits.MemoryBytes = 400 << 20 }, []string{"memory"}},
		"more processes":  {func(j *sandbox.Job) { j.Limits.Processes = 450 }, []string{"processes"}},
		"outside mounted": {mountOutside, []string{"secret", "symlink_read", "symlink_write", "outside_write"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := tierC(t, "auto")
			r.change = c.change
			p, err := Check(t.Context(), host(t, r, own[0], own[1], palyra.TierC))
			if err != nil {
				t.Fatal(err)
			}
			if got := tierOf(p, palyra.TierC).Failed(); !slices.Equal(got, c.falls) {
				t.Errorf("%v, want %v", got, c.falls)
			}
		})
	}
}

// mountOutside shows the run what it must not see.
func mountOutside(j *sandbox.Job) {
	outside := filepath.Join(filepath.Dir(j.Workspace), "outside")
	j.Mounts = append(j.Mounts, palyra.Mount{Source: outside, Target: outside, Writable: true})
}
