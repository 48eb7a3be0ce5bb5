// Package sshkey has keys of ssh: private ones, from a text or in somebody's ssh-agent, the host keys that they are
// pinned to, and signatures over data in ssh's own format.
//
// Promises: no private key leaves it, and no text of one stands in an error. A key signs by the algorithms of its
// kind only, and never with SHA-1.
package sshkey

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"palyra"
)

// minRSA is the shortest RSA key that is used, in bits.
const minRSA = 2048

// agentWithin is how long an ssh-agent has for an answer: its person may have to touch something.
const agentWithin = 60 * time.Second

// Key is a private key. It is safe for use by several goroutines.
type Key struct {
	public ssh.PublicKey
	own    ssh.AlgorithmSigner // nil: an ssh-agent has it
	socket string              // of that
}

// Parse reads a private key, as ssh-keygen writes it, without a passphrase.
func Parse(text []byte) (*Key, error) {
	raw, err := ssh.ParseRawPrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, unusable("the private key has a passphrase").
			WithRemedy("put a copy without one into the vault, which seals it itself (ssh-keygen -p -f COPY), or bind the key where it " +
				"is by --ssh-agent SOCKET")
	case err != nil: // the library's text may quote the key's
		return nil, unusable("it is no private key of ssh").
			WithRemedy("put the whole file in, as ssh-keygen wrote it: palyra vault put NAME --from-file FILE")
	}
	if k, ok := raw.(*rsa.PrivateKey); ok && k.N.BitLen() < minRSA {
		return nil, unusable("an RSA key of %d bits is too short", k.N.BitLen()).WithRemedy("make another one: ssh-keygen -t ed25519")
	}
	signer, err := ssh.NewSignerFromKey(raw)
	if err != nil {
		return nil, unusable("a key of this kind cannot be used")
	}
	if signer.PublicKey().Type() == "ssh-dss" {
		return nil, unusable("DSA keys are not used any more").WithRemedy("make another one: ssh-keygen -t ed25519")
	}
	own, ok := signer.(ssh.AlgorithmSigner)
	if !ok {
		return nil, unusable("a key of this kind cannot be used")
	}
	return &Key{public: signer.PublicKey(), own: own}, nil
}

func unusable(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, format, args...)
}

// InAgent finds a key in the ssh-agent at a socket, by its public key or SHA256:FINGERPRINT.
func InAgent(ctx context.Context, socket, name string) (*Key, error) {
	c, done, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer done()
	keys, err := c.List()
	if err != nil {
		return nil, gone(socket, err)
	}
	for _, k := range keys {
		public, err := ssh.ParsePublicKey(k.Blob)
		if err != nil {
			continue
		}
		if _, cert := public.(*ssh.Certificate); !cert && (ssh.FingerprintSHA256(public) == name || same(name, public)) {
			return &Key{public: public, socket: socket}, nil
		}
	}
	return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the ssh-agent does not have that key").
		WithRemedy("see what it has: SSH_AUTH_SOCK=%s ssh-add -l", palyra.Clip(socket, 128))
}

// same reports whether a line is of a public key.
func same(line string, k ssh.PublicKey) bool {
	words := strings.Fields(line)
	return len(words) >= 2 && words[0]+" "+words[1] == Line(k)
}

func dial(ctx context.Context, socket string) (agent.ExtendedAgent, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, agentWithin)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		cancel()
		return nil, nil, gone(socket, err)
	}
	until, _ := ctx.Deadline()
	_ = conn.SetDeadline(until)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return agent.NewClient(conn), func() { stop(); cancel(); _ = conn.Close() }, nil
}

func gone(socket string, err error) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "the ssh-agent at %s does not answer", palyra.Clip(socket, 128)).
		WithRemedy("start it, and bind the key again if its socket is another one now: palyra vault bind").WithCause(err)
}

// Public is the public key.
func (k *Key) Public() ssh.PublicKey { return k.public }

// Line is a public key as text, without a comment.
func Line(k ssh.PublicKey) string {
	return strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k)), "\n")
}

// Algorithms lists the signature algorithms of a key, the best one first. SHA-1 is none.
func Algorithms(k ssh.PublicKey) []string {
	if k.Type() == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{k.Type()}
}

// Sign signs data by an algorithm of the key. What an ssh-agent answers is verified before it is given away.
func (k *Key) Sign(ctx context.Context, data []byte, algorithm string) (*ssh.Signature, error) {
	if !slices.Contains(Algorithms(k.public), algorithm) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a key of the kind %s does not sign by %s", k.public.Type(),
			palyra.Clip(algorithm, 64))
	}
	if k.own != nil {
		return k.own.SignWithAlgorithm(rand.Reader, data, algorithm)
	}
	c, done, err := dial(ctx, k.socket)
	if err != nil {
		return nil, err
	}
	defer done()
	var flags agent.SignatureFlags
	switch algorithm {
	case ssh.KeyAlgoRSASHA256:
		flags = agent.SignatureFlagRsaSha256
	case ssh.KeyAlgoRSASHA512:
		flags = agent.SignatureFlagRsaSha512
	}
	sig, err := c.SignWithFlags(k.public, data, flags)
	if err != nil {
		return nil, gone(k.socket, err)
	}
	if sig.Format != algorithm || k.public.Verify(data, sig) != nil {
		return nil, gone(k.socket, errors.New("its signature is not good"))
	}
	return sig, nil
}
