package keeper

import (
	"runtime"
	"slices"
	"testing"

	"palyra/internal/vault/keepertest"
)

// Keys in files are what the suite says, where files can be kept from other users.
func TestFilesKeepKeys(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("UNPROVEN HERE: files are not trusted on Windows")
	}
	t.Run(KeyFile, func(t *testing.T) {
		keepertest.Run(t, "", func(dir string) keepertest.Keeper { return NewFiles(dir) })
	})
	t.Run(Passphrase, func(t *testing.T) {
		keepertest.Run(t, "correct horse battery", func(dir string) keepertest.Keeper { return NewPassphrase(dir) })
	})
}

// Every system has its own keepers, beside those of all.
func TestAllKeepers(t *testing.T) {
	want := []string{KeyFile, Passphrase}
	switch runtime.GOOS {
	case "linux":
		want = append(want, SecretService)
	case "darwin":
		want = append(want, Keychain)
	case "windows":
		want = append(want, DPAPI)
	}
	all := All(t.TempDir())
	for _, name := range want {
		if all[name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
	for name := range all {
		if !slices.Contains(want, name) {
			t.Errorf("%s is there", name)
		}
	}
}
