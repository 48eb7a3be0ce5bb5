package attest

import (
	"encoding/json"
	"errors"

	"palyra"
)

// textOf returns an envelope's one compact JSON text, which its digest is of. A payload is long and has nothing to
// escape, so it is not looked through as other strings are.
func textOf(e palyra.Envelope) ([]byte, error) {
	if !isBase64(e.Payload) || len(e.Signatures) == 0 {
		return json.Marshal(e)
	}
	kind, err1 := json.Marshal(e.PayloadType)
	signatures, err2 := json.Marshal(e.Signatures)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(e.Payload)+len(kind)+len(signatures)+64)
	b = append(append(b, `{"payloadType":`...), kind...)
	b = append(append(append(b, `,"payload":"`...), e.Payload...), '"')
	return append(append(append(b, `,"signatures":`...), signatures...), '}'), nil
}

// isBase64 reports whether s has no character that standard base64 has not.
func isBase64(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '/' || c > '9') && c != '+' && c != '=' {
			return false
		}
	}
	return true
}
