package sshkey

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"strings"

	"golang.org/x/crypto/ssh"
)

// GitNamespace is what signatures of commits and tags are for.
const GitNamespace = "git"

const (
	sigMagic = "SSHSIG"
	sigHash  = "sha512"
)

// SignText returns an armored signature of a text, as 'ssh-keygen -Y sign' makes it, for git and nothing else.
func (k *Key) SignText(ctx context.Context, text []byte) ([]byte, error) {
	sum := sha512.Sum512(text)
	signed := append([]byte(sigMagic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{GitNamespace, "", sigHash, sum[:]})...)
	sig, err := k.Sign(ctx, signed, Algorithms(k.public)[0])
	if err != nil {
		return nil, err
	}
	blob := append([]byte(sigMagic), ssh.Marshal(struct {
		Version                   uint32
		Key                       []byte
		Namespace, Reserved, Hash string
		Signature                 []byte
	}{1, k.public.Marshal(), GitNamespace, "", sigHash, ssh.Marshal(sig)})...)
	var b strings.Builder
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for text := base64.StdEncoding.EncodeToString(blob); text != ""; {
		n := min(70, len(text))
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return []byte(b.String()), nil
}
