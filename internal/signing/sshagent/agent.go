// Package sshagent is the ssh-agent of one run (RFC 9987): it lists the keys that are bound to the run, and signs with
// them so that a client logs in to the servers whose host keys are pinned, and nothing else.
//
// Promises: a signature is given only over a whole request to log in, on a connection on which the server's host key has
// signed the session first (session-bind); the key, the session, the algorithm and the user are those of the binding. It
// is on record before it is given. Keys are neither added, removed nor locked; nothing is signed for an agent that was
// forwarded. Whatever is refused is told.
//
// Locks: Server.mu is a leaf.
package sshagent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"palyra"
	"palyra/internal/signing/sshkey"
)

// The bounds of a run's agent.
const (
	maxMessage    = 64 << 10 // bytes
	maxClients    = 32       // at once
	maxSignatures = 1000     // of a run
	idle          = 2 * time.Minute
)

// PinnedKey is a key with the servers that it is for.
type PinnedKey struct {
	Binding  string
	Key      *sshkey.Key
	HostKeys []string // public keys, as text
	User     string   // the only one to log in as; empty: any
}

// Use is a signature that is about to be given.
type Use struct {
	Binding   string
	Key       string // fingerprints
	HostKey   string
	User      string
	Algorithm string
	Digest    palyra.Digest // of what is signed
}

// Config is what a server stands on. All fields are required.
type Config struct {
	Keys    []PinnedKey
	Signed  func(context.Context, Use) error      // puts a signature on record before it is given; with an error it is not
	Refused func(ctx context.Context, why string) // is told of each request that was refused
}

// Server answers the clients of one run.
type Server struct {
	Config
	pins   [][]string // of each key: its host keys, marshalled
	ctx    context.Context
	cancel context.CancelFunc
	places chan struct{}
	work   sync.WaitGroup

	mu     sync.Mutex
	left   int // signatures
	closed bool
	open   map[io.Closer]bool
}

// New makes the agent of a run.
func New(c Config) (*Server, error) {
	s := &Server{Config: c, places: make(chan struct{}, maxClients), left: maxSignatures, open: map[io.Closer]bool{}}
	for _, k := range c.Keys {
		var pins []string
		for _, line := range k.HostKeys {
			p, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
			if err != nil {
				return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a host key of the binding %s cannot be read", k.Binding)
			}
			pins = append(pins, string(p.Marshal()))
		}
		s.pins = append(s.pins, pins)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Serve answers at a listener until Close. It does not block, and closes the listener.
func (s *Server) Serve(l net.Listener) {
	if !s.keep(l) {
		return
	}
	s.work.Go(func() {
		defer s.drop(l)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case s.places <- struct{}{}:
			default:
				_ = c.Close()
				continue
			}
			if !s.keep(c) {
				return
			}
			s.work.Go(func() {
				defer func() { s.drop(c); <-s.places }()
				(&client{Server: s}).talk(c)
			})
		}
	})
}

// keep has Close close c; false: it is closed already.
func (s *Server) keep(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return false
	}
	s.open[c] = true
	return true
}

func (s *Server) drop(c io.Closer) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	_ = c.Close()
}

// Close ends every connection; nothing is signed afterwards. It can be called again.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
}

// take takes one of the run's signatures.
func (s *Server) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.left == 0 {
		return false
	}
	s.left--
	return true
}

// client is one connection.
type client struct {
	*Server
	bound *bond // nil: it has not said to which server it connected
	spent bool  // it tried to: no further try counts
}

// talk answers messages until something is wrong with one's frame.
func (c *client) talk(conn net.Conn) {
	for {
		_ = conn.SetDeadline(time.Now().Add(idle))
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(head[:])
		if n == 0 || n > maxMessage {
			c.Refused(c.ctx, "a message of no length, or too long")
			return
		}
		msg := make([]byte, n)
		if _, err := io.ReadFull(conn, msg); err != nil {
			return
		}
		answer := c.answer(msg)
		_ = conn.SetDeadline(time.Now().Add(idle))
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// answer answers a message.
func (c *client) answer(msg []byte) []byte {
	switch msg[0] {
	case msgRequestIdentities:
		if len(msg) == 1 {
			return c.list()
		}
	case msgSignRequest:
		answer, why := c.sign(msg[1:])
		if why != nil {
			c.Refused(c.ctx, why.Error())
			return []byte{msgFailure}
		}
		return answer
	case msgExtension:
		f := &fields{rest: msg[1:]}
		if name := string(f.text()); f.bad || name != extBind {
			return []byte{msgFailure} // clients try what an agent may know: nothing to tell
		}
		if why := c.bind(f.rest); why != nil {
			c.Refused(c.ctx, why.Error())
			return []byte{msgExtensionFailure}
		}
		return []byte{msgSuccess}
	}
	c.Refused(c.ctx, "a message that is neither to list keys nor to log in")
	return []byte{msgFailure}
}

// list lists the keys: once the client has said to which server it connected, those for that server.
func (c *client) list() []byte {
	var all []byte
	n := uint32(0)
	for i, k := range c.Keys {
		if c.bound != nil && !slices.Contains(c.pins[i], string(c.bound.hostKey)) {
			continue
		}
		all = append(all, ssh.Marshal(struct {
			Blob    []byte
			Comment string
		}{k.Key.Public().Marshal(), "palyra " + k.Binding})...)
		n++
	}
	return append(binary.BigEndian.AppendUint32([]byte{msgIdentitiesAnswer}, n), all...)
}

var (
	errBoundTwice = errors.New("a connection that is bound to a server is not bound to another")
	errOtherHost  = errors.New("a server whose host key is not pinned")
	errNoLogin    = errors.New("data that is no request to log in by a key")
	errUnbound    = errors.New("a request to log in before the server is known (session-bind)")
	errSession    = errors.New("a request to log in of another connection")
	errKey        = errors.New("a key that is not bound, or is for another server")
	errHostKey    = errors.New("a request to log in to another server than the connection's")
	errAlgorithm  = errors.New("an algorithm that does not go with the key (RSA with SHA-1 does not)")
	errUser       = errors.New("a user whom the key is not for")
	errSpent      = errors.New("more signatures than a run gets")
)

// bind takes what a client says about its server. Only the first time counts.
func (c *client) bind(contents []byte) error {
	if c.spent {
		c.bound = nil // whoever tries again is not to be believed at all
		return errBoundTwice
	}
	c.spent = true
	b, err := parseBind(contents)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(c.pins, func(pins []string) bool { return slices.Contains(pins, string(b.hostKey)) }) {
		return errOtherHost
	}
	c.bound = &b
	return nil
}

// sign signs a request to log in.
func (c *client) sign(body []byte) ([]byte, error) {
	f := &fields{rest: body}
	blob, data, flags := f.text(), f.text(), f.number()
	if !f.whole() {
		return nil, errForm
	}
	l, ok := parseLogin(data)
	i := slices.IndexFunc(c.Keys, func(k PinnedKey) bool { return bytes.Equal(k.Key.Public().Marshal(), blob) })
	switch {
	case !ok:
		return nil, errNoLogin
	case c.bound == nil:
		return nil, errUnbound
	case !bytes.Equal(l.session, c.bound.session):
		return nil, errSession
	case i < 0 || !bytes.Equal(l.key, blob) || !slices.Contains(c.pins[i], string(c.bound.hostKey)):
		return nil, errKey
	case l.hostKey != nil && !bytes.Equal(l.hostKey, c.bound.hostKey):
		return nil, errHostKey
	case l.algorithm != wanted(c.Keys[i].Key.Public(), flags):
		return nil, errAlgorithm
	case c.Keys[i].User != "" && c.Keys[i].User != l.user:
		return nil, errUser
	case !c.take():
		return nil, errSpent
	}
	return c.give(c.Keys[i], l, data)
}

// wanted is the algorithm that flags ask for; "": none that is used.
func wanted(k ssh.PublicKey, flags uint32) string {
	switch {
	case k.Type() == ssh.KeyAlgoRSA && flags == flagSHA256:
		return ssh.KeyAlgoRSASHA256
	case k.Type() == ssh.KeyAlgoRSA && flags == flagSHA512:
		return ssh.KeyAlgoRSASHA512
	case k.Type() != ssh.KeyAlgoRSA && flags == 0:
		return k.Type()
	}
	return ""
}

// give gives a signature, once it is on record.
func (c *client) give(k PinnedKey, l login, data []byte) ([]byte, error) {
	host, err := ssh.ParsePublicKey(c.bound.hostKey)
	if err != nil {
		return nil, errForm
	}
	err = c.Signed(c.ctx, Use{
		Binding: k.Binding, Key: ssh.FingerprintSHA256(k.Key.Public()), HostKey: ssh.FingerprintSHA256(host), User: l.user,
		Algorithm: l.algorithm, Digest: palyra.SumBytes(data),
	})
	if err != nil {
		return nil, err
	}
	sig, err := k.Key.Sign(c.ctx, data, l.algorithm)
	if err != nil {
		return nil, err
	}
	return append([]byte{msgSignResponse}, ssh.Marshal(struct{ Signature []byte }{ssh.Marshal(sig)})...), nil
}
