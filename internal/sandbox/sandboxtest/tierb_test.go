//go:build linux

package sandboxtest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/confine"
	"palyra/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	sandboxtest.Clean()
	os.Exit(code)
}

// lacksB is what tier B cannot deny: Landlock does not know attributes, and the
// filter cannot read paths. Tier C gives all of it.
var lacksB = map[string]string{
	"see that a file exists": "Landlock does not know stat",
	"change modes outside":   "Landlock does not know chmod",
	"change times outside":   "Landlock does not know utimes",
}

func openB(cgroup string) func(*testing.T, string) sandbox.Backend {
	return func(t *testing.T, state string) sandbox.Backend {
		t.Helper()
		cell := sandboxtest.Build(t, "palyra/cmd/palyra-cell")
		data, err := os.ReadFile(cell)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		b, err := confine.New(confine.Config{Cell: cell, Digest: hex.EncodeToString(sum[:]), Cgroup: cgroup, Warm: 1, StateID: state})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestTierB(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Factory{Open: openB(confine.CgroupAuto), Lacks: lacksB})
}
