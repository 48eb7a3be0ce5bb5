package keeper

import (
	"os/exec"
	"path/filepath"
	"testing"

	"palyra/internal/vault/keepertest"
)

// A keychain is what the suite says: one of its own, not the user's.
func TestKeychainKeepsKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "palyra-test.keychain-db")
	for _, args := range [][]string{{"create-keychain", "-p", "of this test", file}, {"unlock-keychain", "-p", "of this test", file}} {
		if out, err := exec.Command(securityProgram, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command(securityProgram, "delete-keychain", file).Run() })
	keepertest.Run(t, "", func(dir string) keepertest.Keeper { return Unsealed{keychain{dir: dir, file: file}} })
}
