package egress

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"palyra"
)

// SOCKS5 (RFC 1928, RFC 1929).
const (
	socksVersion  = 5
	socksAuth     = 1 // version of the password exchange
	socksNone     = 0
	socksPassword = 2
	socksRefuse   = 0xff
	socksConnect  = 1

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4

	socksOK          = 0
	socksFailed      = 1
	socksForbidden   = 2
	socksUnreachable = 4
	socksBadCommand  = 7
	socksBadAddress  = 8
)

var errSOCKS = errors.New("egress: not a SOCKS5 exchange")

// socksCode is an answer that ends an exchange.
type socksCode byte

// Error implements error.
func (c socksCode) Error() string { return fmt.Sprintf("egress: socks: refused with %d", byte(c)) }

// serveSOCKS serves a client that began with SOCKS5. It gets the name as the program wrote it, and
// decides before anything is looked up.
func (s *Session) serveSOCKS(c *stream) {
	c.within(s.guard.times.head)
	if !s.greeted(c) {
		return
	}
	h, port, err := readSOCKS(c.br)
	if code := socksCode(0); errors.As(err, &code) {
		socksReply(c, byte(code))
		return
	}
	if err != nil {
		return
	}
	t, err := s.resolveTarget(h, port)
	if err != nil {
		s.refused(doorSOCKS, t, err)
		socksReply(c, socksForbidden)
		return
	}
	up, f, p, err := s.connect(s.ctx, doorSOCKS, t)
	if err != nil {
		socksReply(c, socksCodeOf(err))
		return
	}
	defer s.drop(up)
	if socksReply(c, socksOK) {
		s.tunnel(c, up, f, p)
	}
}

func socksCodeOf(err error) byte {
	switch e := palyra.AsError(err); {
	case e.Code == palyra.Denied:
		return socksForbidden
	case e.Code == palyra.NotFound || e.Code == palyra.Unavailable:
		return socksUnreachable
	}
	return socksFailed
}

// greeted reads the greeting and checks the session's token.
func (s *Session) greeted(c *stream) bool {
	methods, err := readVector(c.br, socksVersion)
	if err != nil {
		return false
	}
	for _, m := range methods {
		if m != socksPassword {
			continue
		}
		if _, err := c.Write([]byte{socksVersion, socksPassword}); err != nil {
			return false
		}
		user, err := readVector(c.br, socksAuth)
		if err != nil {
			return false
		}
		password, err := readBytes(c.br)
		if err != nil {
			return false
		}
		if !s.knows(string(user), string(password)) {
			_, _ = c.Write([]byte{socksAuth, 1})
			return false
		}
		_, err = c.Write([]byte{socksAuth, 0})
		return err == nil
	}
	_, _ = c.Write([]byte{socksVersion, socksRefuse})
	return false
}

// knows reports whether a client has the session's token.
func (s *Session) knows(user, password string) bool {
	u := subtle.ConstantTimeCompare([]byte(user), []byte(proxyUser))
	return u&subtle.ConstantTimeCompare([]byte(password), []byte(s.token)) == 1
}

// readVector reads a version byte and a list with its length before it.
func readVector(r io.Reader, version byte) ([]byte, error) {
	var v [1]byte
	if _, err := io.ReadFull(r, v[:]); err != nil {
		return nil, err
	}
	if v[0] != version {
		return nil, errSOCKS
	}
	return readBytes(r)
}

func readBytes(r io.Reader) ([]byte, error) {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	b := make([]byte, n[0])
	_, err := io.ReadFull(r, b)
	return b, err
}

// readSOCKS reads a request. An error that is a socksCode is sent to the client.
func readSOCKS(r io.Reader) (host, int, error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return host{}, 0, err
	}
	if b[0] != socksVersion || b[2] != 0 {
		return host{}, 0, errSOCKS
	}
	h, err := readSOCKSHost(r, b[3])
	if err != nil {
		return host{}, 0, err
	}
	var port [2]byte
	if _, err := io.ReadFull(r, port[:]); err != nil {
		return host{}, 0, err
	}
	n := int(binary.BigEndian.Uint16(port[:]))
	switch {
	case b[1] != socksConnect:
		return host{}, 0, socksCode(socksBadCommand)
	case n == 0:
		return host{}, 0, socksCode(socksFailed)
	case h == host{}: // no name, or one in a spelling that no rule can have
		return host{}, 0, socksCode(socksForbidden)
	}
	return h, n, nil
}

// readSOCKSHost reads a host; the zero host stands for an invalid name.
func readSOCKSHost(r io.Reader, kind byte) (host, error) {
	switch kind {
	case socksIPv4:
		var b [4]byte
		_, err := io.ReadFull(r, b[:])
		return host{addr: netip.AddrFrom4(b)}, err
	case socksIPv6:
		var b [16]byte
		_, err := io.ReadFull(r, b[:])
		return host{addr: netip.AddrFrom16(b).Unmap()}, err
	case socksName:
		b, err := readBytes(r)
		if err != nil {
			return host{}, err
		}
		h, err := parseHost(string(b))
		if err != nil {
			return host{}, nil // the rest of the request is still to be read
		}
		return h, nil
	}
	return host{}, socksCode(socksBadAddress)
}

func socksReply(c io.Writer, code byte) bool {
	_, err := c.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err == nil
}

// socksRequest is the request for a target to an upstream proxy.
func socksRequest(t target) []byte {
	b := []byte{socksVersion, socksConnect, 0}
	switch {
	case !t.literal():
		b = append(append(b, socksName, byte(len(t.name))), t.name...)
	case t.addr.Is4():
		b = append(append(b, socksIPv4), t.addr.AsSlice()...)
	default:
		b = append(append(b, socksIPv6), t.addr.AsSlice()...)
	}
	return binary.BigEndian.AppendUint16(b, uint16(t.port))
}

// socksAnswer reads an upstream proxy's answer, and not a byte more.
func socksAnswer(r io.Reader) error {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	if b[0] != socksVersion || b[1] != socksOK {
		return fmt.Errorf("the proxy answered %d", b[1])
	}
	skip := int64(2)
	switch b[3] {
	case socksIPv4:
		skip += 4
	case socksIPv6:
		skip += 16
	case socksName:
		var n [1]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return err
		}
		skip += int64(n[0])
	default:
		return errSOCKS
	}
	_, err := io.CopyN(io.Discard, r, skip)
	return err
}
