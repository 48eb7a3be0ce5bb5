package evidence

import (
	"crypto/ed25519"
	"encoding/base64"

	"palyra"
	"palyra/internal/posture"
)

// MaxPosture is the largest text that VerifyPosture reads, in bytes.
const MaxPosture = posture.MaxInput

// VerifyPosture checks the DSSE envelope of a posture. Only the daemon of its host can say whether
// the posture is still current.
func VerifyPosture(raw []byte, t Trust) (palyra.SignedPosture, error) {
	var keys []ed25519.PublicKey
	for _, k := range t.keys {
		pub, err := base64.StdEncoding.Strict().DecodeString(k.PublicKey)
		if err == nil && (k.Use == "" || k.Use == palyra.KeyAttestation) {
			keys = append(keys, pub)
		}
	}
	return posture.Verify(raw, keys...)
}
