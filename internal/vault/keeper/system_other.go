//go:build !linux && !darwin && !windows

package keeper

// systemKeepers are none here.
func systemKeepers(string) map[string]KeyKeeper { return nil }
