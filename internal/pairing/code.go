package pairing

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"

	"palyra"
)

const (
	codePrefix   = "palyra-pair:1?"
	maxCode      = 1024
	maxAddresses = 8
	maxAddress   = 128
	tokenSize    = 32
	pinDigits    = 8
)

// Code is what a QR code holds: where to go, whom to expect, and the secret that opens it once.
type Code struct {
	Addresses []string // host:port
	Pin       [sha256.Size]byte
	Token     palyra.Secret
}

// String returns the code as it is scanned. It holds the secret: it is for the person's screen only.
func (c Code) String() string {
	var b strings.Builder
	b.WriteString(codePrefix)
	for _, a := range c.Addresses {
		b.WriteString("a=" + a + "&")
	}
	b.WriteString("c=" + base64.RawURLEncoding.EncodeToString(c.Pin[:]))
	_ = c.Token.Use(func(t []byte) error { // the function returns no error
		b.WriteString("&t=" + base64.RawURLEncoding.EncodeToString(t))
		return nil
	})
	return b.String()
}

// secret is the code's secret alone, as text.
func (c Code) secret() (text string) {
	_ = c.Token.Use(func(t []byte) error { // the function returns no error
		text = base64.RawURLEncoding.EncodeToString(t)
		return nil
	})
	return text
}

// Format implements fmt.Formatter, so that a code that is printed by mistake does
// not give the secret away; only String itself does.
func (Code) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[pairing code]")) }

// ParseCode reads what String wrote, and nothing else: one text for one code.
func ParseCode(text string) (Code, error) {
	rest, ok := strings.CutPrefix(text, codePrefix)
	if !ok || len(text) > maxCode {
		return Code{}, badCode("it is not a pairing code")
	}
	var c Code
	parts := strings.Split(rest, "&")
	if len(parts) < 3 || len(parts) > maxAddresses+2 {
		return Code{}, badCode("it does not have the parts of one")
	}
	for _, p := range parts[:len(parts)-2] {
		a, ok := strings.CutPrefix(p, "a=")
		if !ok || CheckAddress(a) != nil {
			return Code{}, badCode("an address in it is malformed")
		}
		c.Addresses = append(c.Addresses, a)
	}
	pin, okPin := field(parts[len(parts)-2], "c=")
	token, okToken := field(parts[len(parts)-1], "t=")
	if !okPin || !okToken || bytes.Equal(token, make([]byte, tokenSize)) {
		return Code{}, badCode("its pin or secret is malformed")
	}
	copy(c.Pin[:], pin)
	c.Token = palyra.NewSecret(token)
	return c, nil
}

// field decodes 32 bytes of canonical base64url.
func field(part, name string) ([]byte, bool) {
	text, ok := strings.CutPrefix(part, name)
	if !ok || strings.ContainsAny(text, "\r\n") { // the decoder passes over line ends
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return b, err == nil && len(b) == sha256.Size
}

func badCode(why string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the text is not a usable pairing code: %s", why).
		WithRemedy("scan the QR code of 'palyra device pair' again, or type its PIN")
}

// CheckAddress returns an error unless a is host:port as a code may hold it: a
// name or an address, and a port by number.
func CheckAddress(a string) error {
	bad := palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "an address is HOST:PORT").
		WithRemedy("give the address that 'palyra device pair' shows, such as 192.0.2.7:7443")
	odd := func(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune(".-_:[]%", r) }
	if len(a) > maxAddress || strings.ContainsFunc(a, odd) {
		return bad
	}
	host, port, err := net.SplitHostPort(a)
	n, errPort := strconv.ParseUint(port, 10, 16)
	if err != nil || errPort != nil || host == "" || n == 0 || strconv.FormatUint(n, 10) != port {
		return bad
	}
	return nil
}

// newPIN draws eight digits, each text as likely as any other.
func newPIN() (palyra.Secret, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(100_000_000))
	if err != nil {
		return palyra.Secret{}, fmt.Errorf("pairing: pin: %w", err)
	}
	return palyra.NewSecret(fmt.Appendf(nil, "%0*d", pinDigits, n)), nil
}

func newToken() (palyra.Secret, error) {
	b := make([]byte, tokenSize)
	if _, err := rand.Read(b); err != nil {
		return palyra.Secret{}, fmt.Errorf("pairing: token: %w", err)
	}
	return palyra.NewSecret(b), nil
}

// cleanPIN returns the digits of what a person typed, or an error that does not cost a try.
func cleanPIN(s palyra.Secret) (palyra.Secret, error) {
	var digits []byte
	err := s.Use(func(b []byte) error {
		for _, c := range b {
			switch {
			case c >= '0' && c <= '9' && len(digits) < pinDigits:
				digits = append(digits, c)
			case c == ' ' || c == '-':
			default:
				return errFrame
			}
		}
		return nil
	})
	if err != nil || len(digits) != pinDigits {
		clear(digits)
		return palyra.Secret{}, palyra.Errorf(palyra.Invalid, palyra.ReasonPairingWrongCode, "a pairing PIN has %d digits", pinDigits).
			WithRemedy("type the digits that 'palyra device pair' shows; nothing was sent")
	}
	return palyra.NewSecret(digits), nil
}
