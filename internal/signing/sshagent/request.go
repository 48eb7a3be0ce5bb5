package sshagent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/crypto/ssh"

	"palyra/internal/signing/sshkey"
)

// Numbers of messages, draft-miller-ssh-agent and RFC 9987.
const (
	msgFailure           = 5
	msgSuccess           = 6
	msgRequestIdentities = 11
	msgIdentitiesAnswer  = 12
	msgSignRequest       = 13
	msgSignResponse      = 14
	msgExtension         = 27
	msgExtensionFailure  = 28
)

// extBind is the extension by which a client says to which server it connected.
const extBind = "session-bind@openssh.com"

// Flags of a request to sign.
const (
	flagSHA256 = 2
	flagSHA512 = 4
)

// userauthRequest is the number of the message that an ssh client signs in order to log in (RFC 4252).
const userauthRequest = 50

// The methods of logging in by a key: OpenSSH's names the server too.
const (
	methodKey   = "publickey"
	methodBound = "publickey-hostbound-v00@openssh.com"
)

// fields reads the fields of a message, as ssh writes them. What it cannot read makes all that follows fail.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) text() []byte {
	if f.bad || len(f.rest) < 4 || uint64(binary.BigEndian.Uint32(f.rest)) > uint64(len(f.rest)-4) {
		f.bad = true
		return nil
	}
	n := binary.BigEndian.Uint32(f.rest)
	out := f.rest[4 : 4+n]
	f.rest = f.rest[4+n:]
	return out
}

func (f *fields) octet() byte {
	if f.bad || len(f.rest) == 0 {
		f.bad = true
		return 0
	}
	out := f.rest[0]
	f.rest = f.rest[1:]
	return out
}

// flag reads a boolean. One that is written otherwise than by 0 or 1 is none.
func (f *fields) flag() bool {
	b := f.octet()
	f.bad = f.bad || b > 1
	return b == 1
}

func (f *fields) number() uint32 {
	if f.bad || len(f.rest) < 4 {
		f.bad = true
		return 0
	}
	out := binary.BigEndian.Uint32(f.rest)
	f.rest = f.rest[4:]
	return out
}

// whole reports whether everything was read, and nothing is left.
func (f *fields) whole() bool { return !f.bad && len(f.rest) == 0 }

// login is what a client asks to be signed in order to log in.
type login struct {
	session   []byte
	user      string
	algorithm string
	key       []byte
	hostKey   []byte // nil: the method does not name it
}

// parseLogin reads the data of a request to sign. Anything but a whole request to log in by a key is none.
func parseLogin(data []byte) (l login, ok bool) {
	f := &fields{rest: data}
	l.session = f.text()
	number := f.octet()
	l.user = string(f.text())
	service := string(f.text())
	method := string(f.text())
	signed := f.flag()
	l.algorithm = string(f.text())
	l.key = f.text()
	if method == methodBound {
		l.hostKey = f.text()
	}
	ok = f.whole() && len(l.session) > 0 && number == userauthRequest && service == "ssh-connection" && signed &&
		(method == methodKey || method == methodBound && len(l.hostKey) > 0)
	return l, ok
}

// bond is what a client says about its connection, as the server vouched for it.
type bond struct{ session, hostKey []byte }

var (
	errForm      = errors.New("a request cannot be read")
	errForwarded = errors.New("an agent that is forwarded to another machine signs nothing")
	errVouch     = errors.New("the host key has not signed the session")
)

// parseBind reads a session-bind and verifies that the host key signed the session.
func parseBind(contents []byte) (bond, error) {
	f := &fields{rest: contents}
	hostKey, session, signature, forwarded := f.text(), f.text(), f.text(), f.flag()
	if !f.whole() || len(session) == 0 || len(session) > 128 {
		return bond{}, errForm
	}
	if forwarded {
		return bond{}, errForwarded
	}
	key, err := ssh.ParsePublicKey(hostKey)
	if err != nil || !bytes.Equal(key.Marshal(), hostKey) {
		return bond{}, errForm
	}
	var sig ssh.Signature
	if ssh.Unmarshal(signature, &sig) != nil || !slices.Contains(sshkey.Algorithms(key), sig.Format) || key.Verify(session, &sig) != nil {
		return bond{}, errVouch
	}
	return bond{session: bytes.Clone(session), hostKey: bytes.Clone(hostKey)}, nil
}
