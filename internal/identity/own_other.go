//go:build !unix

package identity

import (
	"os"

	"palyra"
)

// openOwn refuses: without owners and modes a file cannot be shown to be ours.
func openOwn(string) (*os.File, error) { return nil, errUnsupported() }

func checkDir(string) error { return errUnsupported() }

func errUnsupported() error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "operator key files are not supported on this system")
}
