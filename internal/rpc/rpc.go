// Package rpc is the daemon's doors: the agent socket and the operator socket, the one for paired devices and the
// one for browsers, and the chain every request passes before a service sees it.
//
// The chain, in order: the peer must be the daemon's own user, a paired device or a page of the console; the
// request must fit the limits; its credential gives a principal (a token, the bare agent socket, the device, a
// signed-in browser, or the daemon's user looking around); a method marked as signed needs a person's signature
// over exactly this request, used once; the principal's role must hold the permission that the protocol names for
// the method. What the chain found stands in the context as a Caller. A stream that goes both ways is let in to
// look; each of its messages passes the chain again by itself, as the request of the method it belongs to (Admit).
//
// Promises: a method without an access option is refused; the agent door never
// carries a person's authority, and an agent's token never gains one; when a
// credential ends so does everything under it; one credential's requests never
// use up another's limits; attempts
// that should not happen are journaled, and a flood of them is one line with a
// count; errors carry a reason and a remedy and nothing internal.
//
// The services are thin packages below this one; parts reach them through small
// interfaces in root words, passed in by the daemon.
package rpc

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/mask"
	"palyra/internal/rpc/wire"
)

// Sizes of requests. CallTool takes more than any tool does, so that too large
// an argument is refused by the gate, on record, and not by the wire.
const (
	maxCallBody = 12 << 20
	maxRunBody  = 3 << 20 // a run's input of 1 MiB, escaped in JSON, and more
	maxPartBody = 6 << 20 // secrets.MaxPart of a file in base64, and more
	maxBody     = 1 << 20
	maxHeader   = 32 << 10
	maxStreams  = 1024 // per HTTP/2 connection
)

// limits bound what clients can hold.
type limits struct {
	header, idle, body, write, stop time.Duration
	recheck                         time.Duration // of a token under whose name a stream goes on
	conns                           int           // at once, per door
	requests                        int           // at once, per door
	bodies                          int64         // bytes at once, all doors
}

// share is how many of a door's requests one credential may hold.
func (l limits) share() int {
	const part, least = 4, 64
	return max(l.requests/part, min(l.requests, least))
}

var usual = limits{
	header: 10 * time.Second, idle: 2 * time.Minute, body: 30 * time.Second, write: 30 * time.Second, stop: 5 * time.Second,
	recheck: 15 * time.Second, conns: 8192, requests: 8192, bodies: 256 << 20,
}

// Access is the access registry, as the doors need it.
type Access interface {
	People
	// Bearer returns whom a token speaks for; Denied when it is nobody's.
	Bearer(ctx context.Context, token palyra.Secret) (palyra.Bearer, error)
	// Device returns a paired device by its id, revoked ones too.
	Device(ctx context.Context, id string) (palyra.Device, error)
}

// Agents is the part of the registry about agents that come without a credential.
type Agents interface {
	// LocalAgent returns the agent that comes without a token.
	LocalAgent(ctx context.Context) (palyra.Agent, error)
	// CommandAgent returns the agent as whom the commands of a user propose calls.
	CommandAgent(ctx context.Context, uid int64) (palyra.Agent, error)
}

// People is the part of the registry about persons and their keys.
type People interface {
	// Person returns as whom a user looks around without a signature.
	Person(ctx context.Context, uid int64) (palyra.Operator, error)
	// Cap returns the role that a person has, and the only workspaces they
	// reach; Denied when there is no such person any more.
	Cap(ctx context.Context, p palyra.Principal) (palyra.Role, []string, error)
	// CheckIntent verifies a signature, uses it up, and returns it as evidence with the operator behind it.
	CheckIntent(ctx context.Context, sig palyra.Signature) (palyra.Operator, palyra.Signature, error)
}

// Roles knows what a role may do.
type Roles interface {
	// Permits reports whether a role holds a permission, with or without a signature.
	Permits(role palyra.Role, permission palyra.Permission, signed bool) bool
}

// AlertRecorder records what should not happen.
type AlertRecorder interface {
	// Record makes events durable in a transaction of their own.
	Record(ctx context.Context, events ...palyra.Event) (palyra.Position, error)
}

// Limits says who asks too often.
type Limits interface {
	// Take takes one request of a kind out of a key's bucket, or says after how long there is one.
	Take(kind, key string) (after time.Duration, ok bool)
	// Look is Take without taking.
	Look(kind, key string) (after time.Duration, ok bool)
	// Try is told of an attempt from an address to prove what could be guessed; done hears how it ended.
	Try(address string) (done func(ok bool), after time.Duration, ok bool)
}

// The kinds of requests that are limited.
const (
	limitRequests = "requests"
	limitPropose  = "propose"
	limitDecide   = "decide"
)

// Service is something served at the doors.
type Service interface {
	// Mount returns the path and the handler of the service, which must pass every request through the options given.
	Mount(opts ...connect.HandlerOption) (string, http.Handler)
}

// Config wires a Server.
type Config struct {
	AgentSocket    string // path, in a directory that only the daemon's user can enter
	OperatorSocket string
	StateID        string // the audience of signatures
	Access         Access
	Agents         Agents
	Roles          Roles
	Journal        AlertRecorder
	Limits         Limits       // nil: none
	Mask           *mask.Masker // masks what errors say; may be nil
	Services       []Service
	Log            *slog.Logger
	Now            func() time.Time
}

// Server is the doors. Its two sockets are bound, and Run serves them; those for
// devices, browsers and runs come and go.
type Server struct {
	Config
	limits   limits
	doors    []*door
	alarm    *alarm
	health   *grpchealth.StaticChecker
	names    []string
	chain    http.Handler
	bodies   *budget
	live     credentials
	shown    tokenCache
	console  console
	remote   remote
	guests   sync.WaitGroup  // the doors that come and go
	stopping context.Context // ends when Run begins to stop
	stop     context.CancelFunc
}

// New binds the sockets. Nothing is served before Run.
func New(c Config) (*Server, error) { return newServer(c, usual) }

func newServer(c Config, l limits) (*Server, error) {
	if c.StateID == "" || c.Access == nil || c.Agents == nil || c.Roles == nil || c.Journal == nil || c.Log == nil || c.Now == nil ||
		len(c.Services) == 0 {
		return nil, errors.New("rpc: new: a part is missing")
	}
	s := &Server{Config: c, limits: l, live: credentials{most: l.share()}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.alarm = &alarm{record: s.record, now: c.Now}
	s.chain, s.bodies = s.handler(), &budget{left: l.bodies}
	for _, d := range []*door{
		{name: "agent", path: c.AgentSocket, agent: true},
		{name: "operator", path: c.OperatorSocket},
	} {
		if err := d.open(s.chain, s, s.bodies); err != nil {
			s.stop()
			return nil, errors.Join(err, s.close())
		}
		s.doors = append(s.doors, d)
	}
	return s, nil
}

// handler puts the services, health and reflection on one mux.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	a := &auth{Server: s}
	opts := []connect.HandlerOption{
		connect.WithCodec(wire.Codec{}),
		connect.WithRequestGate(a.gate),
		connect.WithInterceptors(a),
		connect.WithConditionalHandlerOptions(bodyLimit),
		connect.WithCompressMinBytes(math.MaxInt32), // over a local socket compressing only costs
	}
	for _, svc := range s.Services {
		path, h := svc.Mount(opts...)
		mux.Handle(path, h)
		s.names = append(s.names, strings.Trim(path, "/"))
	}
	s.health = grpchealth.NewStaticChecker(s.names...)
	own := connect.WithReadMaxBytes(maxBody)
	reflector := grpcreflect.NewStaticReflector(append([]string{grpchealth.HealthV1ServiceName}, s.names...)...)
	s.mount(mux)(grpchealth.NewHandler(s.health, own))
	s.mount(mux)(grpcreflect.NewHandlerV1(reflector, own))
	s.mount(mux)(grpcreflect.NewHandlerV1Alpha(reflector, own))
	return mux
}

// mount serves a handler that has no chain of ours: its requests end when the daemon stops.
func (s *Server) mount(mux *http.ServeMux) func(string, http.Handler) {
	return func(path string, h http.Handler) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(s.stopping, cancel)()
			if v, ok := ctx.Value(visitKey{}).(*visit); !ok || v.hold("nobody at "+v.door, s.live.begin()) != nil {
				w.Header().Set("Retry-After", seconds(time.Second))
				http.Error(w, "rate_limited: too many such requests are under way", http.StatusTooManyRequests)
				return
			}
			h.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

func bodyLimit(spec connect.Spec) []connect.HandlerOption {
	most := maxBody
	switch spec.Procedure {
	case palyrav1connect.ToolServiceCallToolProcedure, palyrav1connect.ToolServiceCheckCallProcedure:
		most = maxCallBody
	case palyrav1connect.RunServiceStartRunProcedure, palyrav1connect.RunServiceRunStreamProcedure:
		most = maxRunBody
	case palyrav1connect.VaultServiceImportVaultProcedure, palyrav1connect.SkillServiceInstallSkillProcedure:
		most = maxPartBody
	}
	return []connect.HandlerOption{connect.WithReadMaxBytes(most)}
}

// ServiceNames returns the full names of what is served.
func (s *Server) ServiceNames() []string { return s.names }

// record journals an event about a request. The request is refused whether or not that works.
func (s *Server) record(e palyra.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), s.limits.stop)
	defer cancel()
	if _, err := s.Journal.Record(ctx, e); err != nil {
		s.Log.Error("an alert could not be journaled", "kind", e.Kind(), "err", err)
	}
}

// Run serves until ctx ends, then stops: streams end at once, other requests
// get a few seconds. It returns nil after a stop in good order.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	served := make(chan struct{})
	for _, d := range s.doors {
		go func() {
			if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
				cancel(err)
			}
			served <- struct{}{}
		}()
	}
	alarmed := make(chan struct{})
	go func() {
		s.alarm.run(s.stopping)
		close(alarmed)
	}()
	<-ctx.Done()
	err := s.shut()
	for range s.doors {
		<-served
	}
	<-alarmed
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		err = errors.Join(cause, err)
	}
	return err
}

// shut ends the streams, waits a little for the rest, and closes.
func (s *Server) shut() error {
	for _, name := range append([]string{""}, s.names...) {
		s.health.SetStatus(name, grpchealth.StatusNotServing)
	}
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), s.limits.stop)
	defer cancel()
	guests := s.leaving()
	doors := append(guests, s.doors...)
	done := make(chan error, len(doors))
	for _, d := range doors {
		go func() { done <- d.server.Shutdown(ctx) }()
	}
	var late error
	for range doors {
		late = errors.Join(late, <-done)
	}
	for _, d := range guests {
		_ = d.close() // what is left was given its time
	}
	err := s.close()
	s.waitDoorsGone(ctx)
	if late != nil {
		s.Log.Warn("requests were cut off at the stop")
	}
	return err
}

// close drops everything. It may be called again.
func (s *Server) close() error {
	var err error
	for _, d := range s.doors {
		err = errors.Join(err, d.close())
	}
	return err
}

// Close gives the sockets up without having served. After Run it does nothing.
func (s *Server) Close() error {
	s.stop()
	for _, d := range s.leaving() {
		_ = d.close() // it is given up
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.limits.stop)
	defer cancel()
	err := s.close()
	s.waitDoorsGone(ctx)
	return err
}
