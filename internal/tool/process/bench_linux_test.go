package process

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/plan"
)

// BenchmarkTiers is the planning of a command, which every call does twice: in
// tier B, and in tier C with a furnished room.
func BenchmarkTiers(b *testing.B) {
	top, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	ws := filepath.Join(top, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		b.Fatal(err)
	}
	room := full()
	room.Egress = nil
	for _, c := range []struct {
		name string
		Config
	}{{"B", Config{}}, {"C", Config{Tier: palyra.TierC, Profiles: profiles{"dev": room}}}, {"C without profile", Config{Tier: palyra.TierC}}} {
		b.Run(c.name, func(b *testing.B) {
			c.Tiers = everywhere{}
			r, err := plan.New(plan.Config{Workspaces: &box{dir: ws, owner: os.Geteuid()}, Drivers: []plan.Driver{driver(b, c.Config)}})
			if err != nil {
				b.Fatal(err)
			}
			raw, _ := json.Marshal(run("touch x"))
			call := &palyra.Call{ID: "C", Proposal: palyra.Proposal{Tool: Name, Arguments: raw}}
			for b.Loop() {
				if _, err := r.Resolve(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
