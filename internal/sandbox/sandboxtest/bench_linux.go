package sandboxtest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/sandbox"
)

// bench is the setting of one class for one identity.
type bench struct {
	Factory
	who     person
	state   string
	backend sandbox.Backend
	base    string // everything below; every user can enter it
	ws      string // the workspace
	outside string // not the workspace; the same owner, open to all
	tool    string // the probe, outside
	probe   string // the probe, in the workspace, under a name that only this bench has
	mark    string // that name
	secret  string // a text that nobody inside may see
}

// random is a short name that was never used.
func random() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func newBench(t *testing.T, f Factory, probe string, who person) *bench {
	t.Helper()
	base := passable(t)
	b := &bench{
		Factory: f, who: who, state: "st" + random(), base: base,
		ws: base + "/workspace", outside: base + "/outside", tool: probe, mark: "px" + random(), secret: "secret-" + random(),
	}
	b.probe = filepath.Join(b.ws, b.mark)
	b.dir(t, b.ws)
	b.dir(t, b.outside)
	copyFile(t, probe, b.probe, 0o755)
	b.own(t, b.probe)
	b.plant(t, "secret", b.secret)
	t.Cleanup(func() { b.killLeft(t) })
	b.backend = b.Open(t, b.state)
	t.Cleanup(func() { b.done(t, b.backend) })
	return b
}

// done closes a backend, which must then have left nothing behind.
func (b *bench) done(t *testing.T, backend sandbox.Backend) {
	t.Helper()
	if err := backend.Close(); err != nil {
		t.Error("close:", err)
	}
	waitChildless(t)
	if left := cgroupsOf(t, b.state); len(left) > 0 {
		t.Errorf("cgroups are left behind: %v", left)
	}
}

func (b *bench) own(t *testing.T, path string) {
	t.Helper()
	check(t, os.Lchown(path, b.who.uid, b.who.gid))
}

func (b *bench) dir(t *testing.T, path string) {
	t.Helper()
	check(t, os.Mkdir(path, 0o755))
	check(t, os.Chmod(path, 0o755)) // whatever the umask
	b.own(t, path)
}

// plant puts a file outside that its owner may do anything with.
func (b *bench) plant(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(b.outside, name)
	readable(t, path, text)
	b.own(t, path)
	return path
}

// file puts a file into the workspace.
func (b *bench) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(b.ws, name)
	readable(t, path, text)
	b.own(t, path)
	return path
}

// readable makes a file that everybody may read, whatever the umask.
func readable(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o644))
	check(t, os.Chmod(path, 0o644))
}

// private makes a run's own directory.
func (b *bench) private(t *testing.T, call palyra.CallID) string {
	t.Helper()
	dir := filepath.Join(b.base, "private-"+string(call))
	b.dir(t, dir)
	for _, d := range []string{"home", "tmp", "exe"} {
		b.dir(t, filepath.Join(dir, d))
	}
	return dir
}

// cgroupsOf lists directories of a daemon in any hierarchy.
func cgroupsOf(t *testing.T, state string) []string {
	t.Helper()
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return filepath.SkipDir // gone meanwhile, or not ours to look at
		}
		if d.IsDir() && strings.Contains(d.Name(), state) {
			found = append(found, path)
			return filepath.SkipDir
		}
		return nil
	})
	return found
}

func owner(t *testing.T, path string) int {
	t.Helper()
	st, err := os.Lstat(path)
	check(t, err)
	return int(st.Sys().(*syscall.Stat_t).Uid)
}

// waitChildless checks that no living child process of ours is left: a closed backend has none, and
// every other part of the suite ends its own first.
func waitChildless(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		all := slices.DeleteFunc(children(t, os.Getpid()), ofSuite)
		if len(all) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("processes are left long after everything was closed: %s", strings.Join(all, "; "))
			return
		}
	}
}

// servers are processes that the suite keeps from class to class, by pid.
var servers sync.Map

// ofSuite reports whether a line of children names one of them.
func ofSuite(line string) bool {
	first, _, _ := strings.Cut(line, " ")
	pid, err := strconv.Atoi(first)
	_, known := servers.Load(pid)
	return err == nil && known
}

// children lists the children of a process that still run.
func children(t *testing.T, pid int) []string {
	t.Helper()
	dir, err := os.ReadDir("/proc")
	check(t, err)
	var all []string
	for _, e := range dir {
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // the name before it may hold much, but hardly this
		if f := strings.Fields(rest); len(f) > 1 && f[0] != "Z" && f[0] != "X" && f[1] == strconv.Itoa(pid) {
			args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			all = append(all, fmt.Sprintf("%s %s %q", strings.TrimSuffix(string(stat[:len(stat)-len(rest)]), " "), f[0],
				strings.ReplaceAll(string(args), "\x00", " ")))
		}
	}
	return all
}
