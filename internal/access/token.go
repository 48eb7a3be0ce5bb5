package access

import (
	"crypto/rand"
	"hash/crc32"
	"math/big"
	"strings"

	"palyra"
)

// A token is "plyr_", 256 random bits in 43 characters of base 62, and a checksum of 6, so that a scanner can tell
// a real one from a look-alike and a mistyped one costs no look-up.
const (
	tokenPrefix = "plyr_"
	secretBytes = 32
	secretChars = 43
	sumChars    = 6
	tokenLen    = len(tokenPrefix) + secretChars + sumChars
	digits      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// newToken returns a fresh token and the digest it is stored by.
func newToken() (palyra.Secret, palyra.Digest) {
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // never fails: the runtime aborts instead
	body := base62(new(big.Int).SetBytes(secret[:]), secretChars)
	clear(secret[:])
	token := []byte(tokenPrefix + body + tokenSum(body))
	return palyra.NewSecret(token), palyra.SumBytes(token)
}

// parseToken returns the digest of a well-formed token.
func parseToken(token []byte) (palyra.Digest, bool) {
	body, ok := strings.CutPrefix(string(token), tokenPrefix)
	if !ok || len(token) != tokenLen {
		return "", false
	}
	secret, sum := body[:secretChars], body[secretChars:]
	for i := range len(secret) {
		if strings.IndexByte(digits, secret[i]) < 0 {
			return "", false
		}
	}
	if sum != tokenSum(secret) {
		return "", false
	}
	return palyra.SumBytes(token), true
}

// tokenID names an API token by a digest of its digest. It says nothing about the token, and no other token has it.
func tokenID(digest palyra.Digest) string {
	return "tok-" + strings.TrimPrefix(string(palyra.SumBytes([]byte("palyra/token-id/v1\x00"+string(digest)))), "sha256:")[:32]
}

func tokenSum(body string) string {
	return base62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), sumChars)
}

func base62(n *big.Int, width int) string {
	s := n.Text(62) // 0-9a-zA-Z; any fixed alphabet of 62 would do
	return strings.Repeat("0", width-len(s)) + s
}
