package cells

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// procWith is a /proc with one process that has this file.
func procWith(t testing.TB, file, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/42", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "42", file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMarkOf(t *testing.T) {
	const limits = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max address space         unlimited            unlimited            bytes     \n" +
		"Max file locks            %s            %s            locks     \n" +
		"Max pending signals       95934                95934                signals   \n"
	for _, c := range []struct {
		soft, hard string
		mark       uint64
		ok         bool
	}{
		{"7", "7", 7, true},
		{"3", "9223372036854775806", 1<<63 - 2, true}, // the soft one is the program's to lower
		{"unlimited", "unlimited", 0, false},
		{"7", "-7", 0, false},
		{"7", "x", 0, false},
	} {
		if m, ok := markOf(procWith(t, "limits", fmt.Sprintf(limits, c.soft, c.hard)), 42); m != c.mark && c.ok || ok != c.ok {
			t.Errorf("%+v: %d %v", c, m, ok)
		}
	}
	for _, text := range []string{"", "Max file locks", "\nMax file locks 7", "nothing of the kind"} {
		if m, ok := markOf(procWith(t, "limits", text), 42); ok {
			t.Errorf("%q: %d", text, m)
		}
	}
	if _, ok := markOf("/nowhere", 42); ok {
		t.Error("a process that is not there")
	}
}

func TestStatOf(t *testing.T) {
	for text, want := range map[string]stat{
		"42 (sleep) S 7 42 9":         {"S", 7, 9, "77"},
		"42 (evil) Z 1 1 1) Z 7 42 9": {"Z", 7, 9, "77"}, // a name may hold anything
		"42 (a\nb) R 7 42 9":          {"R", 7, 9, "77"},
	} {
		text += " 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 77 11 12"
		if got, ok := statOf(procWith(t, "stat", text), 42); !ok || got != want {
			t.Errorf("%q: %+v %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "42", "42 (x", "42 (x) S", "42 (x) S a b c", ") ",
		"42 (x) S 7 42 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0",
	} {
		if got, ok := statOf(procWith(t, "stat", text), 42); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestSweepLeavesOthers: nothing that does not carry the mark is touched, however
// it is asked for.
func TestSweepLeavesOthers(t *testing.T) {
	var asked []uint64
	if left := (hunt{proc: "/proc", session: os.Getpid(), ours: func(m uint64) bool { asked = append(asked, m); return false }}).
		sweep(); left != 0 {
		t.Errorf("%d left of nothing", left)
	}
	all := func(uint64) bool { return true }
	if left := (hunt{proc: t.TempDir(), ours: all}).sweep(); left != 0 {
		t.Errorf("%d left in an empty /proc", left)
	}
	if _, ok := (hunt{proc: "/proc", ours: all}).strike(os.Getpid(), unix.SIGKILL); ok { // this process has no mark
		t.Error("ours")
	}
}

// TestMarksAreOfTheState: two states never take each other's processes for their
// own, and no mark looks like "unlimited".
func TestMarksAreOfTheState(t *testing.T) {
	seen := map[uint32]string{}
	for i := range 1000 {
		id := fmt.Sprint("state-", i)
		m := stateMark(id)
		if other, ok := seen[m]; ok {
			t.Errorf("%s and %s share %x", id, other, m)
		}
		seen[m] = id
		if m>>31 != 0 {
			t.Errorf("%s: the top bit is set", id)
		}
	}
	if first := stateMark("a"); stateMark("a") != first {
		t.Error("a mark is not the state's")
	}
	b := &Fleet{live: map[uint64]bool{}, state: 5}
	if first, second := b.NewMark(), b.NewMark(); first == second || first>>32 != 5 || !b.live[second] {
		t.Errorf("%x %x", first, second)
	}
}

// FuzzHierarchies: whatever the two files say, a directory of ours is below what
// is mounted.
func FuzzHierarchies(f *testing.F) {
	f.Add(hybridCgroup, hybridMounts)
	f.Add("0::/../../x\n", "1 2 3:4 /a /mnt rw - cgroup2 cgroup2 rw\n")
	f.Add("4:memory:/a/../../b\n", "1 2 3:4 / /mnt rw - cgroup cgroup rw,memory\n")
	f.Fuzz(func(t *testing.T, cgroup, mounts string) {
		for key, h := range hierarchies(cgroup, mounts) {
			if clean := filepath.Clean(h.mount); h.own != clean && h.own != h.mount && clean != "/" && !strings.HasPrefix(h.own, clean+"/") {
				t.Errorf("%q: %q is not below %q", key, h.own, h.mount)
			}
		}
	})
}
