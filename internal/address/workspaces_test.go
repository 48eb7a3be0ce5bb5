//go:build unix

package address_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/address"
)

// listed are the workspaces that a run directory is believed to name.
func listed(t *testing.T, run string, want []string, known bool) {
	t.Helper()
	if got, ok := address.Workspaces(run); ok != known || !slices.Equal(got, want) {
		t.Errorf("%q %v, not %q %v", got, ok, want, known)
	}
}

func TestWorkspacesAreRead(t *testing.T) {
	run := t.TempDir()
	listed(t, run, nil, false)
	must(t, address.SaveWorkspaces(run, []string{"/a"}))
	listed(t, run, nil, false) // no daemon wrote down that it is here
	must(t, address.Save(run, run))
	for _, paths := range [][]string{nil, {"/a"}, {"/a", "/b/\xff\n c", strings.Repeat("/x", 2_000)}} {
		must(t, address.SaveWorkspaces(run, paths))
		listed(t, run, paths, true)
	}
	if info, err := os.Stat(filepath.Join(run, "workspaces")); err != nil || info.Mode().Perm() != 0o600 {
		t.Error("others could read it", err)
	}
	must(t, address.ForgetWorkspaces(run))
	must(t, address.ForgetWorkspaces(run))
	listed(t, run, nil, false)
}

// What cannot be written down is asked for, and nothing older is believed in its place.
func TestWorkspacesNotWritten(t *testing.T) {
	run := t.TempDir()
	must(t, address.Save(run, run))
	for _, paths := range [][]string{{"/a\x00b"}, {""}, {strings.Repeat("/x", 40_000)}} {
		must(t, address.SaveWorkspaces(run, []string{"/old"}))
		must(t, address.SaveWorkspaces(run, paths))
		listed(t, run, nil, false)
	}
}

func TestWorkspacesNotBelieved(t *testing.T) {
	run := t.TempDir()
	path := filepath.Join(run, "workspaces")
	must(t, address.Save(run, run))
	must(t, address.SaveWorkspaces(run, []string{"/a"}))
	good, err := os.ReadFile(path)
	must(t, err)
	long := string(good) + strings.Repeat("x\x00", 40_000)
	for _, text := range []string{"", "\n", "/a", "run 1:1\n/a\x00", strings.TrimSuffix(string(good), "\x00"), long} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		listed(t, run, nil, false)
	}
	must(t, os.WriteFile(path, good, 0o600))
	listed(t, run, []string{"/a"}, true)

	before := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, before, before)) // of a daemon before this one
	listed(t, run, nil, false)
	must(t, address.SaveWorkspaces(run, []string{"/a"}))

	must(t, os.Chmod(path, 0o666))
	listed(t, run, nil, false)
	must(t, os.Chmod(path, 0o600))
	listed(t, run, []string{"/a"}, true)

	must(t, os.Rename(path, path+".real"))
	must(t, os.Symlink(path+".real", path))
	listed(t, run, nil, false)

	other := t.TempDir() // a copy of the directory
	for _, name := range []string{"addr", "workspaces.real"} {
		b, err := os.ReadFile(filepath.Join(run, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(other, strings.TrimSuffix(name, ".real")), b, 0o600))
	}
	listed(t, other, nil, false)
}
