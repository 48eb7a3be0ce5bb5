// Package client is the Go client of the daemon; the command line, the terminal UI and end-to-end tests use nothing
// else. It speaks root words, never wire types, over the unix sockets of a home directory, or over mutual TLS to a
// daemon on another machine that this one is paired with (Remote).
//
// The agent door needs no credential, or an agent's token. The operator door shows everything to the daemon's own
// user; whatever changes something is signed by Config.Signer, which the client calls by itself for the methods
// that the protocol marks as signed.
//
// Every error is a *palyra.Error. One with ReasonNoDaemon means that nobody listens; the remedy is "palyra up
// --detach". One with ReasonOutOfReach means that this process may not connect, as in another sandbox. One with
// ReasonConnectionLost means that the daemon went away in the middle, and that what became of the request must be
// looked up. The client never starts a daemon.
package client

import (
	"context"
	"io"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"google.golang.org/protobuf/proto"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

// Door is the socket that a client uses. The zero Door is the agent's, which permits least.
type Door int

// The doors.
const (
	AgentDoor Door = iota
	OperatorDoor
)

// Signer signs what an operator intends. *identity.Signer is one.
type Signer interface {
	// KeyID names the key.
	KeyID() string
	// Sign returns the base64 signature over the intent's bytes. It may ask the person for a passphrase, once.
	Sign(palyra.Intent) (string, error)
}

// Config says which daemon to use, and as whom.
type Config struct {
	Home       string                 // $PALYRA_HOME; its run/addr, else run/*.sock, says where the daemon listens
	Socket     string                 // path of a socket; overrides Home
	Find       func() (string, error) // path of a socket, asked for at each request; overrides both
	Remote     *Remote                // a daemon on another machine; overrides all of them
	Door       Door
	AgentToken palyra.Secret // of a named agent; empty: agent:local
	Command    bool          // at the agent's door without a token: a person's own command, not an agent
	Signer     Signer        // nil: signed methods fail before anything is sent
	Adopted    io.ReadCloser // the answer to the first Call, which somebody else of this user proposed; nil: there is none
}

// Client is a connection to a daemon; safe for concurrent use.
type Client struct {
	cfg       Config
	transport *http.Transport
	duplex    *http.Transport // speaks HTTP/2, for streams that go both ways

	mu       sync.Mutex // guards audience
	audience string     // the daemon's state id, once known

	health      *grpchealth.Client
	status      func() palyrav1connect.StatusServiceClient
	tools       func() palyrav1connect.ToolServiceClient
	approvals   func() palyrav1connect.ApprovalsServiceClient
	sessions    func() palyrav1connect.SessionServiceClient
	changes     func() palyrav1connect.ChangeServiceClient
	workspaces  func() palyrav1connect.WorkspaceServiceClient
	vault       func() palyrav1connect.VaultServiceClient
	access      func() palyrav1connect.AccessServiceClient
	keys        func() palyrav1connect.KeyServiceClient
	journal     func() palyrav1connect.JournalServiceClient
	policy      func() palyrav1connect.PolicyServiceClient
	observe     func() palyrav1connect.ObserveServiceClient
	attestation func() palyrav1connect.AttestationServiceClient
	sandbox     func() palyrav1connect.SandboxServiceClient
	devices     func() palyrav1connect.DeviceServiceClient
	mcp         func() palyrav1connect.McpServiceClient
	skills      func() palyrav1connect.SkillServiceClient
	runs        func() palyrav1connect.RunServiceClient
	streams     func() palyrav1connect.RunServiceClient // RunStream, on duplex
}

// local is the URL that stands for the socket.
const local = "http://palyra"

// Open returns a client. It does not connect: each request does, so that a client outlives a daemon's restart.
func Open(cfg Config) (*Client, error) {
	if cfg.Socket == "" && cfg.Home == "" && cfg.Find == nil && cfg.Remote == nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "neither a home nor a socket is given")
	}
	c := &Client{cfg: cfg}
	base := local
	if cfg.Remote != nil {
		base = "http://" + cfg.Remote.host() // the connection beneath is TLS from its first byte
		c.audience = cfg.Remote.StateID      // signatures are for the daemon of the pairing, whatever id it claims now
	}
	c.transport = &http.Transport{
		DialContext:        c.dial,
		DisableKeepAlives:  true, // a kept connection would fail the first request after a restart
		DisableCompression: true,
	}
	c.duplex = &http.Transport{DialContext: c.dial, DisableKeepAlives: true, DisableCompression: true, Protocols: new(http.Protocols)}
	c.duplex.Protocols.SetUnencryptedHTTP2(true)
	h := &http.Client{Transport: c.transport}
	if cfg.Remote != nil { // devices speak HTTP/2 only
		h.Transport = c.duplex
	}
	if cfg.Adopted != nil {
		h.Transport = &adopter{next: h.Transport, answer: cfg.Adopted}
	}
	opt := connect.WithInterceptors(&signing{c})
	c.health = grpchealth.NewClient(h, base)
	c.status = later(palyrav1connect.NewStatusServiceClient, h, base, opt)
	c.tools = later(palyrav1connect.NewToolServiceClient, h, base, opt)
	c.approvals = later(palyrav1connect.NewApprovalsServiceClient, h, base, opt)
	c.sessions = later(palyrav1connect.NewSessionServiceClient, h, base, opt)
	c.changes = later(palyrav1connect.NewChangeServiceClient, h, base, opt)
	c.workspaces = later(palyrav1connect.NewWorkspaceServiceClient, h, base, opt)
	c.vault = later(palyrav1connect.NewVaultServiceClient, h, base, opt)
	c.access = later(palyrav1connect.NewAccessServiceClient, h, base, opt)
	c.keys = later(palyrav1connect.NewKeyServiceClient, h, base, opt)
	c.journal = later(palyrav1connect.NewJournalServiceClient, h, base, opt)
	c.policy = later(palyrav1connect.NewPolicyServiceClient, h, base, opt)
	c.observe = later(palyrav1connect.NewObserveServiceClient, h, base, opt)
	c.attestation = later(palyrav1connect.NewAttestationServiceClient, h, base, opt)
	c.sandbox = later(palyrav1connect.NewSandboxServiceClient, h, base, opt)
	c.devices = later(palyrav1connect.NewDeviceServiceClient, h, base, opt)
	c.mcp = later(palyrav1connect.NewMcpServiceClient, h, base, opt)
	c.skills = later(palyrav1connect.NewSkillServiceClient, h, base, opt)
	c.runs = later(palyrav1connect.NewRunServiceClient, h, base, opt)
	c.streams = later(palyrav1connect.NewRunServiceClient, &http.Client{Transport: c.duplex}, base, opt)
	return c, nil
}

// maker makes the client of a service.
type maker[C any] = func(connect.HTTPClient, string, ...connect.ClientOption) C

// later has the client of a service made when it is first called: to make all of them takes as long as some calls.
func later[C any](service maker[C], h *http.Client, base string, o connect.ClientOption) func() C {
	return sync.OnceValue(func() C { return service(h, base, o) })
}

// Close drops idle connections.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	c.duplex.CloseIdleConnections()
	return nil
}

// Health reports whether the daemon serves.
func (c *Client) Health(ctx context.Context) error {
	res, err := c.health.Check(ctx, &grpchealth.CheckRequest{})
	if err != nil {
		return failure(err)
	}
	if res.Status != grpchealth.StatusServing {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon does not serve").WithRemedy("palyra up --detach")
	}
	return nil
}

// Status asks the daemon about itself.
func (c *Client) Status(ctx context.Context) (Status, error) {
	res, err := c.status().GetStatus(ctx, &v1.GetStatusRequest{})
	return word[Status](res.GetStatus(), err)
}

// Shutdown asks the daemon to stop in good order (signed).
func (c *Client) Shutdown(ctx context.Context) error {
	_, err := c.status().Shutdown(ctx, &v1.ShutdownRequest{})
	return failure(err)
}

// word turns a message into a word, and a wire error into a *palyra.Error.
func word[T any](m proto.Message, err error) (T, error) {
	var w T
	if err != nil {
		return w, failure(err)
	}
	if err := wire.ToWord(m, &w); err != nil {
		return w, failure(err)
	}
	return w, nil
}

// words turns a message whose only field is a list into words.
func words[T any](m proto.Message, err error, name string) ([]T, error) {
	list, err := word[map[string][]T](m, err)
	return list[name], err
}

// receiveAll receives a stream to its end.
func receiveAll[M any](stream *connect.ServerStreamForClient[M], err error, f func(*M) error) error {
	if err != nil {
		return failure(err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		if err := f(stream.Msg()); err != nil {
			return err
		}
	}
	return failure(stream.Err())
}
