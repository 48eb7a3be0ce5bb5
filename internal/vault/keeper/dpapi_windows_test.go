package keeper

import (
	"testing"

	"palyra/internal/vault/keepertest"
)

// What Windows seals is what the suite says.
func TestDPAPIKeepsKeys(t *testing.T) {
	keepertest.Run(t, "", func(dir string) keepertest.Keeper { return NewDPAPI(dir) })
}
