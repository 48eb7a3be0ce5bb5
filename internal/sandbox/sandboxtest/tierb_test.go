//go:build linux

package sandboxtest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/confine"
	"palyra/internal/sandbox/local"
	"palyra/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	sandboxtest.Clean()
	os.Exit(code)
}

// lacksB is what tier B cannot deny: it has no namespaces, Landlock does not know
// attributes, and the filter cannot read paths. Tier C gives all of it.
var lacksB = map[string]string{
	"a file system of its own": "it sees the host's, as far as Landlock lets it",
	"a network of its own":     "it has none",
	"IPC of its own":           "it may make no objects that would outlive it",
	"sealed paths":             "Landlock cannot take away what lies below something that it gives",
	"see that a file exists":   "Landlock does not know stat",
	"change modes outside":     "Landlock does not know chmod",
	"change times outside":     "Landlock does not know utimes",
	"leave the owner pipes":    "the kernel counts the memory of pipes by uid, and the run has its owner's",
}

// builtCell is the cell, and its digest.
func builtCell(t *testing.T) (path, digest string) {
	t.Helper()
	path = sandboxtest.Build(t, "palyra/cmd/palyra-cell")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return path, hex.EncodeToString(sum[:])
}

// openB opens backends that look at the system's own places once, since all of them are opened after the suite planted there.
func openB(places *local.Places) func(*testing.T, string) sandbox.Backend {
	return func(t *testing.T, state string) sandbox.Backend {
		t.Helper()
		cell, digest := builtCell(t)
		b, err := confine.New(confine.Config{
			Cell: cell, Digest: digest, Cgroup: confine.CgroupAuto, Warm: 1, StateID: state, Places: places,
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestTierB(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Factory{Open: openB(&local.Places{}), Lacks: lacksB})
}
