//go:build !unix

package keeper

// readOwn accepts no file where owners and modes cannot be checked.
func readOwn(string) ([]byte, error) {
	return nil, &unsafeError{"files cannot be kept from other users here", "use another keeper: palyra vault rotate --keeper"}
}
