//go:build linux

package mcp

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/cli/invocation"
)

func TestMCPToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	inv := &invocation.Invocation{}
	one, path, err := mcpToken(inv, file)
	if err != nil || path != file || one.Empty() {
		t.Fatalf("%v %s", err, path)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	two, _, err := mcpToken(inv, file)
	same := false
	_ = one.Use(func(x []byte) error {
		return two.Use(func(y []byte) error {
			same = string(x) == string(y) && len(x) >= 20
			return nil
		})
	})
	if err != nil || !same {
		t.Errorf("the second time: %v", err)
	}
	if _, _, err := mcpToken(inv, filepath.Join(file, "below")); err == nil {
		t.Error("a token in no directory")
	}
}
