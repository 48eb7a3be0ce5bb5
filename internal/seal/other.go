//go:build !linux

package seal

import (
	"context"

	"palyra"
)

func unsupported() error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "sealed paths are held on Linux only")
}

func scan(context.Context, string, *Matcher, Limits) (*Snapshot, error) { return nil, unsupported() }

func scanAgain(context.Context, *Snapshot) (*Snapshot, error) { return nil, unsupported() }

func (s *Snapshot) stale(context.Context) (bool, error) { return false, unsupported() }

func (s *Snapshot) holdOn() error { return unsupported() }

func (s *Snapshot) sweep(context.Context, string, palyra.CallID) ([]string, error) {
	return nil, unsupported()
}
