package rpc_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/rpc"
	rpcaccess "palyra/internal/rpc/access"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/wire"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/webauthn"
)

// recorder keeps events, for the registry and for the doors.
type recorder struct {
	mu     sync.Mutex
	events []palyra.Event
	came   chan struct{} // something was recorded
	fails  error
}

func (r *recorder) Append(_ *store.Tx, e palyra.Event) (palyra.Position, error) {
	return r.Record(context.Background(), e)
}

func (r *recorder) Record(_ context.Context, events ...palyra.Event) (palyra.Position, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		return palyra.Position{}, r.fails
	}
	r.events = append(r.events, events...)
	select {
	case r.came <- struct{}{}:
	default:
	}
	return palyra.Position{Seq: int64(len(r.events))}, nil
}

// alerts returns the alerts so far, and forgets all events.
func (r *recorder) alerts() (out []palyra.AlertRaised) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if a, ok := e.(palyra.AlertRaised); ok {
			out = append(out, a)
		}
	}
	r.events = nil
	return out
}

// key is a person's signing key.
type key struct {
	id      string
	public  string
	private ed25519.PrivateKey
}

func newKey() key {
	pub, priv, _ := ed25519.GenerateKey(rand.Reader)
	return key{id: "op-" + string(palyra.SumBytes(pub))[7:39], public: base64.StdEncoding.EncodeToString(pub), private: priv}
}

// bench is a served pair of doors on pretended parts and a real registry.
type bench struct {
	t        testing.TB
	parts    *rpctest.Parts
	registry *access.Registry
	journal  *recorder
	server   *rpc.Server
	dir      string
	log      *bytes.Buffer
	stop     func() error
	told     bytes.Buffer // what the last answer said

	owner, viewer  key
	token, removed string
}

type maker func(rpc.Config) (*rpc.Server, error)

func newBench(t testing.TB, open maker) *bench {
	t.Helper()
	b := &bench{
		t: t, journal: &recorder{came: make(chan struct{}, 1)}, dir: shortDir(t), log: &bytes.Buffer{}, owner: newKey(),
		viewer: newKey(),
	}
	b.people()
	b.parts = &rpctest.Parts{Registry: rpcaccess.Registry{Keys: b.registry, People: b.registry, Tokens: b.registry, Roles: b.registry}}
	var err error
	b.server, err = open(b.config())
	if err != nil {
		t.Fatal(err)
	}
	b.run()
	return b
}

func (b *bench) config() rpc.Config {
	return rpc.Config{
		AgentSocket: b.socket("agent"), OperatorSocket: b.socket("operator"), StateID: rpctest.StateID, Access: b.registry, Agents: b.registry,
		Roles:   b.registry,
		Journal: b.journal, Services: b.parts.Services(), Log: slog.New(slog.NewTextHandler(b.log, nil)), Now: time.Now,
	}
}

// run serves until the test ends or b.stop is called.
func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.server.Run(ctx) }()
	b.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	b.t.Cleanup(func() {
		if err := b.stop(); err != nil {
			b.t.Errorf("run: %v", err)
		}
	})
}

// shortDir is a private directory whose path fits a socket's address.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "plyr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (b *bench) socket(door string) string { return filepath.Join(b.dir, door+".sock") }

// people makes an owner, a viewer, an agent and one that was removed.
func (b *bench) people() {
	b.t.Helper()
	engine, err := sqlite.Open(filepath.Join(b.dir, "state.db"))
	b.must(err)
	db, err := store.Open(context.Background(), engine, access.Schema())
	b.must(err)
	b.t.Cleanup(func() { _ = db.Close() })
	b.registry, err = access.New(access.Config{DB: db, Journal: b.journal, StateID: rpctest.StateID, Now: time.Now, Passkey: webauthn.Check})
	b.must(err)
	ctx := b.t.Context()
	_, err = b.registry.AddFirstOwner(ctx, palyra.Operator{Principal: "user:alice", PublicKey: b.owner.public}, int64(os.Geteuid()))
	b.must(err)
	by := palyra.Signature{Intent: palyra.Intent{KeyID: b.owner.id}}
	_, err = b.registry.AddOperator(ctx, palyra.Operator{Principal: "user:vic", Role: palyra.RoleViewer, PublicKey: b.viewer.public}, by)
	b.must(err)
	for name, into := range map[string]*string{"ci": &b.token, "gone": &b.removed} {
		_, token, err := b.registry.AddAgent(ctx, name, "", by)
		b.must(err)
		_ = token.Use(func(t []byte) error { *into = string(t); return nil })
	}
	b.must(b.registry.RemoveAgent(ctx, "agent:gone", by))
	b.journal.alerts()
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// unix returns an HTTP client of a door.
func (b *bench) unix(door string, http2 bool) *http.Client {
	tr := &http.Transport{
		DisableKeepAlives: !http2,
		Protocols:         new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", b.socket(door))
		},
	}
	if http2 {
		tr.Protocols.SetUnencryptedHTTP2(true)
	} else {
		tr.Protocols.SetHTTP1(true)
	}
	b.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// method is one method of the protocol.
type method struct {
	protoreflect.MethodDescriptor
	access *v1.Access
}

func (m method) procedure() string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// methods walks everything the protocol has.
func methods(t testing.TB) []method {
	t.Helper()
	var out []method
	protoregistry.GlobalFiles.RangeFilesByPackage("palyra.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			svc := f.Services().Get(i)
			for j := range svc.Methods().Len() {
				md := svc.Methods().Get(j)
				opt, _ := proto.GetExtension(md.Options(), v1.E_Access).(*v1.Access)
				out = append(out, method{md, opt})
			}
		}
		return true
	})
	if len(out) < 50 {
		t.Fatalf("only %d methods", len(out))
	}
	return out
}

// request makes a request that the service would take.
func (m method) request(t testing.TB) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	switch msg := mt.New().Interface().(type) {
	case *v1.GetAttestationRequest:
		msg.CallId = "C1"
		return msg
	case *v1.ExplainCallRequest:
		msg.CallId = "C1"
		return msg
	case *v1.DecideApprovalRequest:
		msg.ApprovalId, msg.Answer, msg.PlanDigest = "A1", "allow", "sha256:00"
		return msg
	case *v1.AddAgentRequest:
		msg.Name = "n" + fmt.Sprint(time.Now().UnixNano())
		return msg
	case *v1.AddUserRequest:
		msg.Principal, msg.Role = "user:n"+fmt.Sprint(time.Now().UnixNano()), "viewer"
		return msg
	case *v1.ChangeUserRequest:
		msg.Principal, msg.Role = "user:vic", "viewer"
		return msg
	case *v1.AddTokenRequest:
		msg.Name, msg.Scopes, msg.TtlMs = "t", []string{"status.view"}, 60_000
		return msg
	case *v1.AddOperatorRequest:
		msg.Principal, msg.Role, msg.PublicKey = "user:new", "viewer", newKey().public
		return msg
	case *v1.GetCallRequest:
		msg.CallId = "C1"
		return msg
	case *v1.CheckCallRequest:
		msg.Call = &v1.CallToolRequest{Tool: "palyra.echo"}
		return msg
	case *v1.WatchCallRequest:
		msg.CallId = "C1"
		return msg
	case *v1.CancelCallRequest:
		msg.CallId = "C1"
		return msg
	case *v1.SendInputRequest:
		msg.CallId, msg.End = "C1", true
		return msg
	case *v1.GetChangesRequest:
		msg.CallId = "C1"
		return msg
	case *v1.SendRunInputRequest:
		msg.RunId, msg.Text = "R1", "go on"
		return msg
	case *v1.CancelRunRequest:
		msg.RunId = "R1"
		return msg
	case *v1.AttachRunRequest:
		msg.RunId = "R1"
		return msg
	case *v1.InstallSkillRequest:
		msg.Part, msg.Size, msg.Digest = []byte("x"), 1, string(palyra.SumBytes([]byte("x")))
		return msg
	case *v1.ImportVaultRequest:
		msg.Part, msg.Size, msg.Digest = []byte("x"), 1, string(palyra.SumBytes([]byte("x")))
		return msg
	case *v1.RunStreamRequest:
		msg.Message = &v1.RunStreamRequest_Attach{Attach: &v1.AttachRunRequest{RunId: "R1"}}
		return msg
	default:
		return msg
	}
}

// intent signs a request with k; change may spoil it.
func (k key) intent(t testing.TB, m method, msg proto.Message, audience string, at time.Time) string {
	t.Helper()
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce)
	i := wire.Intent{Nonce: base64.RawURLEncoding.EncodeToString(nonce), Time: palyra.Time(at), KeyID: k.id}
	bound, err := wire.Bind(audience, wire.Access{Method: m.procedure()[1:]}, msg, i)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := bound.Intent.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	i.Sig = base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, raw))
	h, err := i.Header()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// send posts a request in the plain protocol and returns the reason of its
// refusal; "" means that it was let in. A stream is read to its first message.
func (b *bench) send(door string, m method, msg proto.Message, head http.Header) palyra.Reason {
	b.t.Helper()
	why, err := b.sendTo(b.unix(door, m.IsStreamingClient()), "http://palyra", m, msg, head)
	b.must(err)
	return why
}

// sendTo is send to any address. The error is that nobody answered.
func (b *bench) sendTo(c *http.Client, base string, m method, msg proto.Message, head http.Header) (palyra.Reason, error) {
	b.t.Helper()
	body, err := proto.Marshal(msg)
	b.must(err)
	kind := "application/proto"
	if m.IsStreamingServer() {
		kind = "application/connect+proto"
		body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+m.procedure(), bytes.NewReader(body))
	b.must(err)
	for k, v := range head {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Connect-Protocol-Version", "1")
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	if b.parts.Whose != nil {
		b.told.Reset()
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(res.Body, &b.told), res.Body}
	}
	if m.IsStreamingServer() && res.StatusCode == http.StatusOK {
		why := b.streamReason(res.Body)
		if m.IsStreamingClient() { // its tape is told beside it, and is short
			_, _ = io.Copy(io.Discard, res.Body)
		}
		return why, nil
	}
	raw, err := io.ReadAll(res.Body)
	b.must(err)
	switch {
	case res.StatusCode == http.StatusOK:
		return "", nil
	case !json.Valid(raw):
		return palyra.Reason(fmt.Sprint("http_", res.StatusCode)), nil
	}
	return b.reason(raw), nil
}

// streamReason reads the first envelope: a message, or the end with an error.
func (b *bench) streamReason(r io.Reader) palyra.Reason {
	b.t.Helper()
	var prefix [5]byte
	_, err := io.ReadFull(r, prefix[:])
	b.must(err)
	raw := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
	_, err = io.ReadFull(r, raw)
	b.must(err)
	if prefix[0]&2 == 0 {
		return ""
	}
	var end struct{ Error json.RawMessage }
	b.must(json.Unmarshal(raw, &end))
	if end.Error == nil {
		return ""
	}
	return b.reason(end.Error)
}

// reason reads the reason out of an error's detail.
func (b *bench) reason(raw []byte) palyra.Reason {
	b.t.Helper()
	var e struct {
		Code, Message string
		Details       []struct{ Type, Value string }
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		b.t.Fatalf("not an error: %q", raw)
	}
	for _, d := range e.Details {
		val, err := base64.RawStdEncoding.DecodeString(d.Value)
		b.must(err)
		var det v1.ErrorDetail
		b.must(proto.Unmarshal(val, &det))
		return palyra.Reason(det.GetReasonCode())
	}
	return palyra.Reason("no detail: " + e.Code + ": " + e.Message)
}
