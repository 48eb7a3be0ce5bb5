package palyra

// SignatureMade is a signature with a key that no program has. Its line is durable before the signature is made, so that
// there is none without one.
type SignatureMade struct {
	Type    string `json:"type"`    // sigv4
	Binding string `json:"binding"` // that lent the key
	Key     string `json:"key"`     // the secret's name
	For     string `json:"for"`     // where it is good: of sigv4 region/service at host:port
	Payload string `json:"payload_digest"`
	Digest  Digest `json:"signed_digest"` // of the text that is signed
	Shown   string `json:"shown"`         // what a person reads of it
	Call    CallID `json:"call_id"`
}

// Kind implements Event.
func (SignatureMade) Kind() string { return "signature.made" }
