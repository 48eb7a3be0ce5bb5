//go:build !unix

package keyring

import (
	"os"

	"palyra"
)

// Without owners and modes that can be checked no key file is accepted.

func openNoFollow(string) (*os.File, error) { return nil, unsupported() }

func checkFile(*os.File, bool) error { return unsupported() }

func checkCredentials(string) error { return unsupported() }

func unsupported() error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "signing keys cannot be kept safely on this platform yet").
		WithRemedy("run the daemon on Linux or macOS")
}
