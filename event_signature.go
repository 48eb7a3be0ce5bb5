package palyra

// SignatureMade is a signature with a key that no program has. Its line is durable before the signature is given, so that
// there is none without one.
type SignatureMade struct {
	Type      string  `json:"type"`          // sigv4, ssh_login, commit, tag
	Binding   string  `json:"binding"`       // that lent the key
	Key       string  `json:"key"`           // of sigv4 the secret's name; otherwise the fingerprint
	For       string  `json:"for,omitempty"` // of sigv4 where it is good: region/service at host:port
	Payload   string  `json:"payload_digest"`
	Signed    Digest  `json:"signed_digest,omitempty"` // of sigv4: of the text that is signed
	Shown     string  `json:"shown,omitempty"`         // of sigv4: what a person reads of it
	Call      CallID  `json:"call_id"`                 // of the program that wanted it
	Grant     GrantID `json:"grant_id,omitempty"`      // of the call by which it was asked for: its plan has what was shown
	Algorithm string  `json:"algorithm,omitempty"`
	HostKey   string  `json:"host_key,omitempty"` // of ssh_login: the server's fingerprint
	User      string  `json:"user,omitempty"`     // of ssh_login
}

// Kind implements Event.
func (SignatureMade) Kind() string { return "signature.made" }
