package client_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/rpc/rpctest"
	"palyra/secrets"
)

// An export of any size comes and goes whole, and leaves nothing in the daemon's directory.
func TestVaultExportAndImport(t *testing.T) {
	b := newBench(t)
	c := b.operator()
	pass := palyra.NewSecret([]byte("correct horse battery"))
	var out bytes.Buffer
	n, err := c.ExportVault(t.Context(), pass, true, &out)
	if err != nil || n != 2 || out.String() != rpctest.Exported || !slices.Contains(b.parts.Seen(), "export vault true") {
		t.Errorf("%d, %q, %v", n, out.String(), err)
	}
	before, _ := filepath.Glob(filepath.Join(os.TempDir(), ".vault-*.tmp"))
	for _, size := range []int{1, secrets.MaxPart - 1, secrets.MaxPart, secrets.MaxPart + 1, 2*secrets.MaxPart + 77} {
		file := []byte(strings.Repeat("0123456789abcdef", size/16+1))[:size]
		b.parts.Seen()
		got, err := c.ImportVault(t.Context(), bytes.NewReader(file), int64(size), pass, secrets.Replace)
		if err != nil || got.Versions != 2 || got.Keeper != "key-file" {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
		want := fmt.Sprintf("import vault replace%d %x", size, sha256.Sum256(file))
		if seen := b.parts.Seen(); len(seen) != 1 || seen[0] != want {
			t.Errorf("%d bytes: %q", size, seen)
		}
	}
	if after, _ := filepath.Glob(filepath.Join(os.TempDir(), ".vault-*.tmp")); len(after) > len(before) {
		t.Errorf("there is %q", after)
	}
	if _, err := c.ImportVault(t.Context(), strings.NewReader("short"), 50, pass, secrets.Add); err == nil {
		t.Error("a file that is shorter than it is said to be is sent")
	}
	if _, err := c.ImportVault(t.Context(), strings.NewReader(""), 0, pass, secrets.Add); reason(err) != palyra.ReasonMalformedInput {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := b.agent().ExportVault(t.Context(), pass, true, &out); reason(err) != palyra.ReasonPermission {
		t.Errorf("an agent exports: %v", err)
	}
}
