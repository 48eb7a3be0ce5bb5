//go:build !linux

package tiers

import (
	"os"

	"palyra"
)

// textFile is for rooms, which are Linux's only.
func textFile([]byte) (*os.File, error) {
	return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "no secret can be lent to programs on this system").
		WithRemedy("propose the call without bindings, or run palyrad on Linux")
}
