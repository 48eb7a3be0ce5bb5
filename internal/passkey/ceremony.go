package passkey

import "strings"

// Request is what an authenticator is asked with for a new passkey.
type Request struct {
	Challenge []byte
	Host      string // the relying party
	User      []byte // the same for all passkeys of a person
	Exclude   [][]byte
}

// New is a passkey that an authenticator has just made, as the browser hands it over.
type New struct{ Credential, Attestation, ClientData []byte }

// Plain reports whether a console's address is one beyond this machine without TLS, where others on the way can be the page:
// that alone is written as an origin in HTTP. A key that was paired there only denies, wherever it comes from.
func Plain(address string) bool { return strings.HasPrefix(address, "http://") }

// ConsoleOrigin is the origin of the pages of a console, by its address: a host with a port, over plain HTTP, or an origin.
func ConsoleOrigin(address string) string {
	switch host, plain := strings.CutSuffix(address, ":80"); {
	case strings.Contains(address, "://"):
		return address
	case plain: // browsers leave it off
		return "http://" + host
	}
	return "http://" + address
}
