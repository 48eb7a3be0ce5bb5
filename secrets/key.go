package secrets

import (
	"crypto/sha256"
	"encoding/base64"
	"path"
	"slices"
	"strings"

	"palyra"
)

// Keys reports whether secrets of a kind are private keys, which sign and go nowhere.
func (k Kind) Keys() bool { return k == SSHAgent || k.Asks() }

// Asks reports whether each use of a key of the kind is a call of its own, which is judged and asked about: a run that may
// ask so can do nothing by itself.
func (k Kind) Asks() bool { return k == Signing || k == GitSSH }

// logsIn reports whether a key logs in at servers.
func (k Kind) logsIn() bool { return k == SSHAgent || k == GitSSH }

// ReasonOtherKey is for a key that is not the one of its binding any more.
const ReasonOtherKey palyra.Reason = "key_changed"

// The limits of a key's binding.
const (
	maxHostKeys = 16
	maxKeyBytes = 8 << 10 // of a public key, as text
)

// Subject is what is asked about in policies: the secret, or the binding itself where somebody else holds the key.
func (b Binding) Subject() string {
	if b.Agent != "" && b.Secret == "" {
		return b.Name
	}
	return b.Secret
}

// checkKey checks what bindings of keys have, and others have not.
func (b *Binding) checkKey(bad func(string, ...any) error) error {
	switch {
	case !b.Kind.Keys() && (b.Agent != "" || b.Key != "" || len(b.HostKeys) > 0):
		return bad("only bindings of the kinds %s, %s and %s have keys", SSHAgent, GitSSH, Signing)
	case !b.Kind.Keys():
		return nil
	case b.Env != "":
		return bad("a key stands in no variable")
	case b.Agent != "" && (b.Secret != "" || !path.IsAbs(b.Agent) || path.Clean(b.Agent) != b.Agent || len(b.Agent) > 107):
		return bad("the socket of an ssh-agent is named by its whole path, and has its key itself: no secret goes with it")
	case len(b.PublicKey) > maxKeyBytes || b.PublicKey != "" && (b.Agent == "" || b.Kind != Signing):
		return bad("the public half goes with a key that signs commits and tags in a gpg-agent")
	case b.Agent != "" && b.Key == "":
		return bad("say which key of that ssh-agent it is: its public key, or SHA256:FINGERPRINT")
	case len(b.Key) > maxKeyBytes || slices.ContainsFunc(b.HostKeys, func(k string) bool { return k == "" || len(k) > maxKeyBytes }):
		return bad("a public key has at most %d bytes (gpg --export-options export-minimal leaves out what is not needed)", maxKeyBytes)
	case b.Kind.logsIn() && (len(b.HostKeys) == 0 || len(b.HostKeys) > maxHostKeys):
		return bad("a key is for servers that are known: 1 to %d host keys (ssh-keyscan shows a server's; compare it with what its owner says)",
			maxHostKeys)
	case b.Kind == Signing && (len(b.HostKeys) > 0 || len(b.Hosts) > 0 || b.User != ""):
		return bad("a key that signs commits and tags is for no host")
	}
	return nil
}

// Fingerprint names a public key as OpenSSH does; the fingerprint of an OpenPGP key names itself.
func Fingerprint(key string) string {
	words := strings.Fields(key)
	if len(words) < 2 {
		return key
	}
	blob, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil {
		return key
	}
	sum := sha256.Sum256(blob)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

func (b Binding) hostFingerprints() string {
	var all []string
	for _, k := range b.HostKeys {
		all = append(all, Fingerprint(k))
	}
	return strings.Join(all, ",")
}
