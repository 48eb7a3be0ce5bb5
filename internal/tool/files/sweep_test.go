//go:build unix

package files

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"palyra"
)

const sweptCall palyra.CallID = "01J9Z8Q2V5T6Y7W8X9A0B1C2D3"

// Only the names of the very call go, in the directories of its plan.
func TestSweep(t *testing.T) {
	each(t, func(b *box) {
		b.mkdir("d/e")
		b.mkdir("elsewhere")
		ours := tempName(sweptCall)
		for _, name := range []string{
			ours, "d/" + ours, "d/e/" + ours, "elsewhere/" + ours, ".palyra-notes.tmp", "d/" + tempName("01J9Z8Q2V5T6Y7W8X9A0B1C2D4"),
			"d/" + tempPrefix(sweptCall) + "x.txt", "d/x" + ours,
		} {
			b.put(name, "x", 0o644)
		}
		full, empty := tempName(sweptCall), tempName(sweptCall)
		b.mkdir("d/" + full)
		b.put("d/"+full+"/mine", "x", 0o644)
		b.mkdir("d/" + empty)
		b.link("/etc/passwd", "d/"+tempName(sweptCall))
		p := palyra.Plan{Tier: palyra.TierBuiltin, Workspace: palyra.WorkspaceRef{Path: b.dir, Owner: int64(b.owner)}, Writes: []string{"d/e/f"}}
		stay, err := Sweep(t.Context(), sweptCall, p)
		b.ok(err)
		if len(stay) != 2 || !slices.Contains(stay, "d/"+full) {
			b.Errorf("stays: %q", stay)
		}
		for name, there := range map[string]bool{
			ours: false, "d/" + ours: false, "d/e/" + ours: false, "d/" + empty: false, "elsewhere/" + ours: true, ".palyra-notes.tmp": true,
			"d/" + tempPrefix(sweptCall) + "x.txt": true, "d/x" + ours: true, "d/" + full + "/mine": true,
		} {
			if _, err := os.Lstat(filepath.Join(b.dir, name)); (err == nil) != there {
				b.Errorf("%s: %v", name, err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(b.dir, "d", ".palyra-01J9Z8Q2V5T6Y7W8X9A0B1C2D4-*")); len(left) != 1 {
			b.Error("another call's file is gone")
		}
		for _, id := range []palyra.CallID{"", "01J9Z8Q2V5", sweptCall + "X"} {
			if stay, err := Sweep(t.Context(), id, p); stay != nil || err != nil {
				b.Errorf("%q: %v, %v", id, stay, err)
			}
		}
	})
}

// What a file of several was before is the only copy there is.
func TestSweepKeepsWhatFilesWere(t *testing.T) {
	b := newBox(t, os.Geteuid())
	was, becomes := tempName(sweptCall), tempName(sweptCall)
	b.put(was, "old", 0o644)
	b.put(becomes, "new", 0o644)
	p := palyra.Plan{
		Tier: palyra.TierBuiltin, Workspace: palyra.WorkspaceRef{Path: b.dir, Owner: int64(b.owner)}, Writes: []string{"a", "b"},
		Inputs: []palyra.Input{{Path: "a", Digest: palyra.SumBytes([]byte("old"))}},
	}
	stay, err := Sweep(t.Context(), sweptCall, p)
	b.ok(err)
	if !slices.Equal(stay, []string{was}) || b.get(was) != "old" {
		t.Errorf("%q", stay)
	}
	if _, err := os.Lstat(b.path(becomes)); err == nil {
		t.Error("new content that was not put in place stays")
	}
}

// With and without files that have no name, a write leaves nothing behind.
func TestUnnamedFiles(t *testing.T) {
	each(t, func(b *box) {
		for _, off := range []bool{false, true} {
			b.shared.disk.noUnnamed = off
			b.shared.at = func(step string) {
				if left, _ := filepath.Glob(filepath.Join(b.dir, ".palyra-*")); step == "staged" && len(left) != 1 {
					b.Errorf("%v: %q", off, left)
				}
			}
			b.must("write", args{"path": "f", "content": "x"})
			b.must("write", args{"path": "f", "content": "y", "executable": true})
			if b.get("f") != "y" {
				b.Error(b.get("f"))
			}
			b.ok(os.Remove(b.path("f")))
		}
	})
}
