// Package gitssh connects git in a room to repositories at servers of ssh, with keys that never enter the room: the
// broker itself logs in, at servers whose host keys are pinned, and starts one of git's two services there.
//
// Promises: nothing but git-upload-pack and git-receive-pack of one repository is started, after that was asked about. A
// push is read before the server sees it: which refs become what, and whether something is lost by that; it is sent on,
// to the byte as it was read, after that was asked about too. Each login is on record before it is made.
package gitssh

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"palyra"
	"palyra/internal/gitwire"
	"palyra/internal/signing/sshkey"
	"palyra/internal/signwire"
)

// PinnedKey is a key with the servers that it is for.
type PinnedKey struct {
	Binding  string
	Key      *sshkey.Key
	Hosts    []string // host:port
	HostKeys []string // public keys, as text
	User     string   // the only one to log in as; empty: any
}

// Use is a login that is about to be made.
type Use struct {
	Request   gitwire.Request
	Algorithm string
	Digest    palyra.Digest // of what is signed
}

// Config is what connections stand on. All fields are required.
type Config struct {
	Keys    []PinnedKey
	Dial    func(ctx context.Context, at string) (net.Conn, error)
	Ask     func(ctx context.Context, r gitwire.Request) error // an error refuses it
	Signed  func(ctx context.Context, u Use) error             // puts a login on record before it is made; with an error it is not
	Refused func(ctx context.Context, why string)
}

// loginWithin is how long a server has for a login, whose key a person may have to touch.
const loginWithin = 90 * time.Second

// Serve connects one client of the room to the repository that it wants, and returns when that is over. Whoever calls
// closes the client's connection.
func (c Config) Serve(ctx context.Context, client net.Conn, w signwire.Way) error {
	k, r, err := c.wanted(w)
	if err != nil {
		c.Refused(ctx, palyra.AsError(err).Text)
		return err
	}
	git := &gitClient{conn: client}
	if err := git.duringAnswer(ctx, func(ctx context.Context) error { return c.Ask(ctx, r) }); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up, err := c.Dial(ctx, r.At)
	if err != nil {
		return err
	}
	defer up.Close()
	defer context.AfterFunc(ctx, func() { _ = up.Close() })()
	_ = up.SetDeadline(time.Now().Add(loginWithin))
	server, err := c.login(ctx, up, k, &r)
	if err != nil {
		return err
	}
	defer server.Close()
	_ = up.SetDeadline(time.Time{})
	return c.service(ctx, server, git, r)
}

func refused(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRefused, format, args...)
}

// wanted finds the key for what a client wants.
func (c Config) wanted(w signwire.Way) (PinnedKey, gitwire.Request, error) {
	at := net.JoinHostPort(strings.ToLower(w.Host), w.Port)
	i := slices.IndexFunc(c.Keys, func(k PinnedKey) bool {
		return slices.Contains(k.Hosts, at) && (k.User == "" || w.User == "" || k.User == w.User)
	})
	if i < 0 {
		return PinnedKey{}, gitwire.Request{}, refused("a login at a server, or as a user, that no key is for").
			WithRemedy("have an operator bind a key for it: palyra vault bind --git-ssh")
	}
	k := c.Keys[i]
	r := gitwire.Request{
		Binding: k.Binding, Key: ssh.FingerprintSHA256(k.Key.Public()), User: w.User, At: at, Path: w.Path, Service: w.Service,
	}
	if r.User == "" {
		r.User = k.User
	}
	var prints []string
	for _, p := range pins(k) {
		prints = append(prints, ssh.FingerprintSHA256(p))
	}
	slices.Sort(prints)
	r.HostKey = strings.Join(prints, ",")
	if r.User == "" || len(prints) == 0 || !r.Valid() {
		return k, r, refused("a repository, or a user, that cannot be read").
			WithRemedy("let git connect to ssh://USER@HOST/PATH, in plain letters")
	}
	return k, r, nil
}

func pins(k PinnedKey) (list []ssh.PublicKey) {
	for _, line := range k.HostKeys {
		if p, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// login logs in at a server whose host key is pinned, and notes which it is.
func (c Config) login(ctx context.Context, up net.Conn, k PinnedKey, r *gitwire.Request) (*ssh.Client, error) {
	pinned := pins(k)
	var algorithms []string
	for _, p := range pinned {
		algorithms = append(algorithms, sshkey.Algorithms(p)...)
	}
	signer := &signer{key: k.Key, record: func(data []byte, algorithm string) error {
		return c.Signed(ctx, Use{Request: *r, Algorithm: algorithm, Digest: palyra.SumBytes(data)})
	}, ctx: ctx}
	conn, channels, requests, err := ssh.NewClientConn(up, r.At, &ssh.ClientConfig{
		User: r.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyAlgorithms: algorithms, ClientVersion: "SSH-2.0-palyra",
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if !slices.ContainsFunc(pinned, func(p ssh.PublicKey) bool { return string(p.Marshal()) == string(key.Marshal()) }) {
				return errOtherHost
			}
			r.HostKey = ssh.FingerprintSHA256(key)
			return nil
		},
	})
	switch {
	case otherHost(err):
		c.Refused(ctx, errOtherHost.Error())
		return nil, refused("%s", errOtherHost.Error()).
			WithRemedy("find out why it is another one; an operator binds the key anew where that is right")
	case err != nil && signer.failed != nil:
		return nil, signer.failed
	case err != nil:
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonEnvDenied, "%s does not let %s log in with the key %s", r.At, r.User, r.Key).
			WithRemedy("see that the server knows the key: it needs the public half in its authorized_keys").WithCause(err)
	}
	return ssh.NewClient(conn, channels, requests), nil
}

// otherHost says whether a login was not begun because of the server's host key: it is another one, or the server has none
// of the kinds that are pinned.
func otherHost(err error) bool {
	var kinds *ssh.AlgorithmNegotiationError
	return errors.Is(err, errOtherHost) || errors.As(err, &kinds) && kinds.What == "host key" ||
		err != nil && strings.Contains(err.Error(), errOtherHost.Error())
}

var errOtherHost = errors.New("a server whose host key is not pinned")

// signer logs in with a key, once that is on record.
type signer struct {
	ctx    context.Context
	key    *sshkey.Key
	record func(data []byte, algorithm string) error
	failed error
}

// PublicKey implements ssh.Signer.
func (s *signer) PublicKey() ssh.PublicKey { return s.key.Public() }

// Algorithms implements ssh.MultiAlgorithmSigner.
func (s *signer) Algorithms() []string { return sshkey.Algorithms(s.key.Public()) }

// Sign implements ssh.Signer.
func (s *signer) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return s.SignWithAlgorithm(rand, data, s.Algorithms()[0])
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (s *signer) SignWithAlgorithm(_ io.Reader, data []byte, algorithm string) (sig *ssh.Signature, err error) {
	if err = s.record(data, algorithm); err == nil {
		sig, err = s.key.Sign(s.ctx, data, algorithm)
	}
	s.failed = err
	return sig, err
}
