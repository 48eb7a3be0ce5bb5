//go:build !linux

package posture

import "palyra"

func (s *testbed) listen() error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "nothing can be tried out on this system yet")
}

// receiver has nothing to see here.
type receiver struct{}

func (*receiver) close() {}

func (*receiver) control() error { return nil }

func (*receiver) signalSeen() string { return "" }
