package sshagent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"palyra/internal/signing/sshkey"
)

// room is a run's agent with two keys, and the servers that they are for.
type room struct {
	t            *testing.T
	server       *Server
	at           string
	login        *sshkey.Key // for host, as git
	spare        *sshkey.Key // RSA, for second
	host, second ssh.Signer
	stranger     ssh.Signer

	mu      sync.Mutex
	signed  []Use
	refused []string
	unkept  error
}

func hostSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keyOf(t testing.TB, private any) *sshkey.Key {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	k, err := sshkey.Parse(pem.EncodeToMemory(block))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newRoom(t *testing.T) *room {
	t.Helper()
	_, login, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	spare, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, login: keyOf(t, login), spare: keyOf(t, spare), host: hostSigner(t), second: hostSigner(t), stranger: hostSigner(t)}
	r.server, err = New(Config{
		Keys: []PinnedKey{
			{Binding: "login", Key: r.login, HostKeys: []string{sshkey.Line(r.host.PublicKey())}, User: "git"},
			{Binding: "spare", Key: r.spare, HostKeys: []string{sshkey.Line(r.second.PublicKey())}},
		},
		Signed: func(_ context.Context, u Use) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.unkept == nil {
				r.signed = append(r.signed, u)
			}
			return r.unkept
		},
		Refused: func(_ context.Context, why string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refused = append(r.refused, why)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.at = filepath.Join(t.TempDir(), "a.sock")
	l, err := net.Listen("unix", r.at)
	if err != nil {
		t.Fatal(err)
	}
	r.server.Serve(l)
	t.Cleanup(r.server.Close)
	return r
}

// dial is one more client.
func (r *room) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("unix", r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// say sends a message and returns the answer; nil: the connection was ended.
func say(c net.Conn, msg []byte) []byte {
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)); err != nil {
		return nil
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil
	}
	return body
}

// bind is the message by which a client says to which server it connected.
func (r *room) bind(host ssh.Signer, session []byte, forwarded bool) []byte {
	sig, err := host.Sign(rand.Reader, session)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.bindWith(host.PublicKey().Marshal(), session, ssh.Marshal(sig), forwarded)
}

func (r *room) bindWith(key, session, sig []byte, forwarded bool) []byte {
	return append([]byte{msgExtension}, ssh.Marshal(struct {
		Name              string
		Key, Session, Sig []byte
		Forwarded         bool
	}{extBind, key, session, sig, forwarded})...)
}

// request is a login, with all that can be wrong in it.
type request struct {
	session   []byte
	number    byte
	user      string
	service   string
	method    string
	signed    byte
	algorithm string
	key       []byte
	host      []byte
	more      []byte
}

func (q request) data() []byte {
	text := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	out := slices.Concat(text(q.session), []byte{q.number}, text([]byte(q.user)), text([]byte(q.service)), text([]byte(q.method)),
		[]byte{q.signed}, text([]byte(q.algorithm)), text(q.key))
	if q.host != nil {
		out = append(out, text(q.host)...)
	}
	return append(out, q.more...)
}

func signMessage(key, data []byte, flags uint32) []byte {
	return append([]byte{msgSignRequest}, ssh.Marshal(struct {
		Key, Data []byte
		Flags     uint32
	}{key, data, flags})...)
}

func (r *room) good(session []byte) request {
	return request{
		session: session, number: userauthRequest, user: "git", service: "ssh-connection", method: methodBound, signed: 1,
		algorithm: r.login.Public().Type(), key: r.login.Public().Marshal(), host: r.host.PublicKey().Marshal(),
	}
}

var session = bytes.Repeat([]byte{7}, 32)

// A login to the pinned server is signed, by both methods, and is on record; the positive control of what follows.
func TestLoginsAreSigned(t *testing.T) {
	r := newRoom(t)
	for _, method := range []string{methodBound, methodKey} {
		c := r.dial()
		if got := say(c, r.bind(r.host, session, false)); !bytes.Equal(got, []byte{msgSuccess}) {
			t.Fatalf("bind: %v", got)
		}
		q := r.good(session)
		if q.method = method; method == methodKey {
			q.host = nil
		}
		got := say(c, signMessage(q.key, q.data(), 0))
		if len(got) < 5 || got[0] != msgSignResponse {
			t.Fatalf("%s: %v %q", method, got, r.refused)
		}
		var sig ssh.Signature
		if err := ssh.Unmarshal(got[5:], &sig); err != nil || r.login.Public().Verify(q.data(), &sig) != nil {
			t.Errorf("%s: no good signature: %v", method, err)
		}
	}
	c := r.dial()
	if got := say(c, r.bind(r.second, session, false)); !bytes.Equal(got, []byte{msgSuccess}) {
		t.Fatalf("bind: %v", got)
	}
	q := r.good(session)
	q.user, q.key, q.host, q.algorithm = "anybody", r.spare.Public().Marshal(), r.second.PublicKey().Marshal(), ssh.KeyAlgoRSASHA512
	if got := say(c, signMessage(q.key, q.data(), flagSHA512)); len(got) < 5 || got[0] != msgSignResponse {
		t.Fatalf("rsa: %v %q", got, r.refused)
	}
	if len(r.signed) != 3 || r.signed[0].Binding != "login" || r.signed[0].User != "git" || r.signed[2].Binding != "spare" {
		t.Errorf("on record are %+v", r.signed)
	}
}

// What is no login to the pinned server, to the letter, is not signed.
func TestForgeriesAreNotSigned(t *testing.T) {
	r := newRoom(t)
	other := bytes.Repeat([]byte{8}, 32)
	login := r.login.Public().Marshal()
	edit := func(f func(*request)) []byte {
		q := r.good(session)
		f(&q)
		return signMessage(login, q.data(), 0)
	}
	rsaLogin := func(algorithm string, flags uint32) []byte {
		q := r.good(session)
		q.key, q.host, q.algorithm = r.spare.Public().Marshal(), r.second.PublicKey().Marshal(), algorithm
		return signMessage(q.key, q.data(), flags)
	}
	bound := r.bind(r.host, session, false)
	foreign, err := r.stranger.Sign(rand.Reader, session)
	if err != nil {
		t.Fatal(err)
	}
	whole := edit(func(*request) {})
	sshsig := append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{"git", "", "sha512", "x"})...)
	for what, messages := range map[string][][]byte{
		"no bind":                           {whole},
		"a host key that is not pinned":     {r.bind(r.stranger, session, false), whole},
		"a pinned key, another's signature": {r.bindWith(r.host.PublicKey().Marshal(), session, ssh.Marshal(foreign), false), whole},
		"a bind of another session":         {r.bind(r.host, other, false), whole},
		"a forwarded agent":                 {r.bind(r.host, session, true), whole},
		"a second bind":                     {bound, r.bind(r.host, other, false), edit(func(q *request) { q.session = other })},
		"a replayed bind":                   {bound, bound, whole},
		"a bind after a bad one":            {r.bind(r.stranger, session, false), bound, whole},
		"a bind with bytes behind":          {append(slices.Clone(bound), 0), whole},
		"a bind with a strange flag":        {append(slices.Clone(bound[:len(bound)-1]), 2), whole},
		"a session of another connection":   {bound, edit(func(q *request) { q.session = other })},
		"no session":                        {bound, edit(func(q *request) { q.session = nil })},
		"another message":                   {bound, edit(func(q *request) { q.number = 51 })},
		"another user":                      {bound, edit(func(q *request) { q.user = "root" })},
		"another service":                   {bound, edit(func(q *request) { q.service = "ssh-userauth" })},
		"another method":                    {bound, edit(func(q *request) { q.method = "hostbased" })},
		"not to be signed":                  {bound, edit(func(q *request) { q.signed = 0 })},
		"a strange boolean":                 {bound, edit(func(q *request) { q.signed = 2 })},
		"another key inside":                {bound, edit(func(q *request) { q.key = r.spare.Public().Marshal() })},
		"another host key inside":           {bound, edit(func(q *request) { q.host = r.second.PublicKey().Marshal() })},
		"a host key for the plain method":   {bound, edit(func(q *request) { q.method = methodKey })},
		"bound without a host key":          {bound, edit(func(q *request) { q.host = nil })},
		"bytes behind":                      {bound, edit(func(q *request) { q.more = []byte{0} })},
		"another algorithm":                 {bound, edit(func(q *request) { q.algorithm = ssh.KeyAlgoRSASHA256 })},
		"strange flags":                     {bound, signMessage(login, r.good(session).data(), flagSHA512)},
		"a key for another server":          {bound, rsaLogin(ssh.KeyAlgoRSASHA512, flagSHA512)},
		"a key that is not bound":           {bound, signMessage(r.stranger.PublicKey().Marshal(), r.good(session).data(), 0)},
		"rsa with sha-1":                    {r.bind(r.second, session, false), rsaLogin(ssh.KeyAlgoRSA, 0)},
		"rsa that says it is better":        {r.bind(r.second, session, false), rsaLogin(ssh.KeyAlgoRSASHA512, 0)},
		"ssh-keygen -Y sign":                {bound, signMessage(login, sshsig, 0)},
		"a bare hash":                       {bound, signMessage(login, bytes.Repeat([]byte{9}, 32), 0)},
		"nothing":                           {bound, signMessage(login, nil, 0)},
		"a request with bytes behind":       {bound, append(slices.Clone(whole), 0)},
		"a certificate request":             {bound, edit(func(q *request) { q.algorithm = ssh.CertAlgoED25519v01 })},
		"half a request":                    {bound, whole[:len(whole)-9]},
	} {
		c := r.dial()
		for _, m := range messages {
			if got := say(c, m); len(got) > 0 && got[0] == msgSignResponse {
				t.Errorf("%s: signed", what)
			}
		}
		_ = c.Close()
	}
	if len(r.signed) != 0 {
		t.Errorf("on record are %+v", r.signed)
	}
	if len(r.refused) < 30 {
		t.Errorf("told are %d: %q", len(r.refused), r.refused)
	}
}

// Keys are neither added, removed nor locked, and after all of that the bound ones are listed, and no other.
func TestKeysStayAsTheyAre(t *testing.T) {
	r := newRoom(t)
	c := agent.NewClient(r.dial())
	_, private, _ := ed25519.GenerateKey(rand.Reader)
	for what, err := range map[string]error{
		"add": c.Add(agent.AddedKey{PrivateKey: private}), "remove": c.Remove(r.login.Public()), "remove all": c.RemoveAll(),
		"lock": c.Lock([]byte("x")), "unlock": c.Unlock([]byte("x")),
	} {
		if err == nil {
			t.Errorf("%s was done", what)
		}
	}
	if _, err := c.Extension("query", nil); err == nil {
		t.Error("an extension that is not known was taken")
	}
	keys, err := c.List()
	if err != nil || len(keys) != 2 || !bytes.Equal(keys[0].Blob, r.login.Public().Marshal()) {
		t.Errorf("listed are %v, %v", keys, err)
	}
	bound := r.dial()
	say(bound, r.bind(r.second, session, false))
	if keys, err = agent.NewClient(bound).List(); err != nil || len(keys) != 1 || !bytes.Equal(keys[0].Blob, r.spare.Public().Marshal()) {
		t.Errorf("listed for its server are %v, %v", keys, err)
	}
	if got := say(r.dial(), make([]byte, maxMessage+1)); got != nil {
		t.Errorf("a message that is too long was answered: %v", got)
	}
}

// What cannot be put on record is not given; nor is anything once the run is over, or beyond what a run gets.
func TestSignaturesAreOnRecord(t *testing.T) {
	r := newRoom(t)
	ask := func() []byte {
		c := r.dial()
		say(c, r.bind(r.host, session, false))
		return say(c, signMessage(r.login.Public().Marshal(), r.good(session).data(), 0))
	}
	r.unkept = errors.New("the disk is full")
	if got := ask(); !bytes.Equal(got, []byte{msgFailure}) {
		t.Errorf("not on record: %v", got)
	}
	r.unkept, r.server.left = nil, 1
	if got := ask(); len(got) == 0 || got[0] != msgSignResponse {
		t.Errorf("the last one: %v", got)
	}
	if got := ask(); !bytes.Equal(got, []byte{msgFailure}) {
		t.Errorf("one more: %v", got)
	}
	r.server.Close()
	if c, err := net.Dial("unix", r.at); err == nil {
		if got := say(c, []byte{msgRequestIdentities}); got != nil {
			t.Errorf("after the end: %v", got)
		}
	}
}

// What is read as a login is written again as the same bytes.
func FuzzLogin(f *testing.F) {
	q := request{
		session: session, number: userauthRequest, user: "git", service: "ssh-connection", method: methodBound, signed: 1,
		algorithm: "a", key: []byte("k"), host: []byte("h"),
	}
	f.Add(q.data())
	q.method, q.host = methodKey, nil
	f.Add(q.data())
	f.Fuzz(func(t *testing.T, data []byte) {
		l, ok := parseLogin(data)
		if !ok {
			return
		}
		method := methodKey
		if l.hostKey != nil {
			method = methodBound
		}
		again := request{
			session: l.session, number: userauthRequest, user: l.user, service: "ssh-connection", method: method, signed: 1, algorithm: l.algorithm,
			key: l.key, host: l.hostKey,
		}
		if !bytes.Equal(again.data(), data) {
			t.Fatalf("%q is read as %+v", data, l)
		}
		_, _ = parseBind(data)
	})
}
