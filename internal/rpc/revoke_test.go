package rpc_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/access"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/wire"

	"connectrpc.com/connect"
)

// soon is how long an end may take at most, in tests: much, for a busy machine, and less
// than the 15 s after which a stream's credential is looked up anew anyway.
const soon = 12 * time.Second

// follow opens a stream that never ends by itself, and returns where its end will
// be told. The stream has begun when it returns.
func (w *world) follow(c *http.Client, base string, head http.Header) <-chan *palyra.Error {
	w.t.Helper()
	ctx, info := connect.NewClientContext(w.t.Context())
	for k, v := range head {
		info.RequestHeader()[k] = v
	}
	stream, err := palyrav1connect.NewApprovalsServiceClient(c, base).WatchApprovals(ctx, &v1.WatchApprovalsRequest{})
	w.must(err)
	if !stream.Receive() {
		w.t.Fatal(stream.Err())
	}
	ended := make(chan *palyra.Error, 1)
	go func() {
		for stream.Receive() {
		}
		ended <- wire.FromStatus(stream.Err())
	}()
	return ended
}

func (w *world) endsSoon(what string, ended <-chan *palyra.Error) {
	w.t.Helper()
	select {
	case e := <-ended:
		if e == nil {
			w.t.Errorf("%s ended as though nothing was wrong", what)
		}
	case <-time.After(soon):
		w.t.Errorf("%s goes on", what)
	}
}

// A device that is revoked is gone at once: its streams, its connections, its
// tokens' requests over them, and the browsers it signed in.
func TestRevokedDeviceIsCutOff(t *testing.T) {
	w := newWorld(t, nil)
	d, other := w.pair("laptop", palyra.RoleOwner), w.pair("tablet", palyra.RoleOwner)
	_, token := w.apiToken("user:alice", 0, time.Hour, "approvals.view")
	mine := w.follow(d.http, d.base, nil)
	carried := w.follow(d.http, d.base, bearer(token))
	theirs := w.follow(other.http, other.base, nil)
	raw, err := net.Dial("tcp", w.remote)
	w.must(err)
	_, err = w.registry.RevokeDevice(t.Context(), d.ID, w.by())
	w.must(err)
	w.endsSoon("the device's stream", mine)
	w.endsSoon("the stream of a token over its connection", carried)
	_ = raw.Close()
	m := find(t, "GetStatus")
	if why, err := w.sendTo(d.http, d.base, m, m.request(t), nil); err == nil && why != palyra.ReasonDeviceRevoked {
		t.Errorf("it comes in again: %q", why)
	}
	if why, err := w.sendTo(other.http, other.base, m, m.request(t), nil); why != let || err != nil {
		t.Errorf("another device: %q %v", why, err)
	}
	select {
	case e := <-theirs:
		t.Errorf("another device's stream ended: %v", e)
	default:
	}
}

// The same for tokens, agents, keys and browsers; and only for those.
func TestEndedCredentialsAreCutOff(t *testing.T) {
	w := newWorld(t, nil)
	id, token := w.apiToken("user:alice", 0, time.Hour, "approvals.view")
	k := w.person("bob", palyra.RoleOwner)
	session := w.cookie(k, "user:bob", palyra.RoleOwner)
	m := find(t, "WatchApprovals")
	signed := intent(k.intent(t, m, &v1.WatchApprovalsRequest{}, rpctest.StateID, time.Now()))
	byToken := w.follow(w.unix("operator", false), "http://palyra", bearer(token))
	byKey := w.follow(w.unix("operator", false), "http://palyra", signed)
	byBrowser := w.follow(w.browser(), "http://"+w.console, cookieHead(session))
	byOwner := w.follow(w.unix("operator", false), "http://palyra", nil)
	w.must(w.registry.RevokeToken(t.Context(), id, w.by()))
	w.endsSoon("a token's stream", byToken)
	w.must(w.registry.RemoveOperator(t.Context(), k.id, w.by()))
	w.endsSoon("the stream of a key that signed for it", byKey)
	w.endsSoon("the stream of a browser that the key signed in", byBrowser)
	status := find(t, "GetStatus")
	if why, err := w.sendTo(w.browser(), "http://"+w.console, status, status.request(t),
		cookieHead(session)); why != palyra.ReasonNoCredential || err != nil {
		t.Errorf("the browser: %q %v", why, err)
	}
	select {
	case e := <-byOwner:
		t.Errorf("the owner's stream ended: %v", e)
	default:
	}
}

// A browser that is revoked is signed out, and its streams end, however it was signed in: whether it was paired in this
// session, or has signed in it. Other browsers of the same person stay.
func TestRevokedBrowserIsSignedOut(t *testing.T) {
	w := newWorld(t, nil)
	base := "http://" + w.console
	status := find(t, "GetStatus")
	gone := func(name, session string, stream <-chan *palyra.Error) {
		t.Helper()
		w.endsSoon("the stream of a browser that "+name, stream)
		why, err := w.sendTo(w.browser(), base, status, status.request(t), cookieHead(session))
		if why != palyra.ReasonNoCredential || err != nil {
			t.Errorf("a browser that %s: %q %v", name, why, err)
		}
	}
	cookies := []string{}
	for range 3 {
		cookies = append(cookies, w.cookie(w.owner, "user:alice", palyra.RoleOwner))
	}
	other := w.follow(w.browser(), base, cookieHead(cookies[0]))

	joined := w.follow(w.browser(), base, cookieHead(cookies[1]))
	ctx, info := connect.NewClientContext(t.Context())
	for k, v := range cookieHead(cookies[1]) {
		info.RequestHeader()[k] = v
	}
	join, err := palyrav1connect.NewDeviceServiceClient(w.browser(), base).JoinBrowser(ctx, &v1.JoinBrowserRequest{
		Name: "chromium", PublicKey: newKey().public, Code: "12345678",
	})
	w.must(err)
	for join.Receive() {
	}
	w.must(join.Err())
	w.server.EndCredential("device:" + rpctest.Laptop.ID)
	gone("was paired", cookies[1], joined)

	d := w.paired("chromium", "user:alice", 0)
	signs := w.follow(w.browser(), base, cookieHead(cookies[2]))
	head := cookieHead(cookies[2])
	for k, v := range intent(d.key.intent(t, status, status.request(t), rpctest.StateID, time.Now())) {
		head[k] = v
	}
	if why, err := w.sendTo(w.browser(), base, status, status.request(t), head); why != let || err != nil {
		t.Fatalf("%q %v", why, err)
	}
	_, err = w.registry.RevokeDevice(t.Context(), d.ID, w.by())
	w.must(err)
	gone("signed", cookies[2], signs)
	if why, err := w.sendTo(w.browser(), base, status, status.request(t), cookieHead(cookies[0])); why != let || err != nil {
		t.Errorf("another browser: %q %v", why, err)
	}
	select {
	case e := <-other:
		t.Errorf("another browser's stream ended: %v", e)
	default:
	}
}

// The key of a browser counts where it was paired and at no other port: whoever answers at that one now may use it.
func TestABrowsersKeyIsItsConsoles(t *testing.T) {
	w := newWorld(t, nil)
	own, status := w.console, find(t, "GetStatus")
	for address, want := range map[string]palyra.Reason{
		own: let, "palyra.localhost:1": palyra.ReasonBadCredential, "console": palyra.ReasonBadCredential,
	} {
		w.console = address
		d := w.paired("b-"+strings.ReplaceAll(address, ":", "-"), "user:alice", 0)
		w.console = own
		for name, head := range map[string]http.Header{
			"no cookie": {}, "a cookie": cookieHead(w.cookie(w.owner, "user:alice", palyra.RoleOwner)),
		} {
			for k, v := range intent(d.key.intent(t, status, status.request(t), rpctest.StateID, time.Now())) {
				head[k] = v
			}
			if why, err := w.sendTo(w.browser(), "http://"+own, status, status.request(t), head); why != want || err != nil {
				t.Errorf("paired at %s, %s: %q %v", address, name, why, err)
			}
		}
	}
}

// An agent's call ends with the agent.
func TestRemovedAgentIsCutOff(t *testing.T) {
	w := newWorld(t, nil)
	inside, ended := make(chan struct{}), make(chan error, 1)
	w.parts.OnCall = func(ctx context.Context, _ palyra.Proposal, _ palyra.Watch) (palyra.Outcome, error) {
		close(inside)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return palyra.Outcome{}, context.Cause(ctx)
	}
	m := find(t, "CallTool")
	answer := make(chan palyra.Reason, 1)
	go func() { answer <- w.send("agent", m, m.request(t), bearer(w.token)) }()
	<-inside
	w.must(w.registry.RemoveAgent(t.Context(), "agent:ci", w.by()))
	select {
	case err := <-ended:
		if palyra.AsError(err).Reason != palyra.ReasonBadCredential {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Fatal("the call goes on")
	}
	if why := <-answer; why != palyra.ReasonBadCredential {
		t.Errorf("%q", why)
	}
}

// Signing out ends the browser's streams, and a session's time ends them by itself.
func TestSignOutEndsStreams(t *testing.T) {
	w := newWorld(t, nil)
	one, two := w.cookie(w.owner, "user:alice", palyra.RoleOwner), w.cookie(w.owner, "user:alice", palyra.RoleOwner)
	mine, other := w.follow(w.browser(), "http://"+w.console, cookieHead(one)), w.follow(w.browser(), "http://"+w.console, cookieHead(two))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.console+"/logout", nil)
	req.Header = cookieHead(one)
	res, err := w.browser().Do(req)
	w.must(err)
	_ = res.Body.Close()
	w.endsSoon("the stream", mine)
	select {
	case e := <-other:
		t.Errorf("another browser's stream ended: %v", e)
	default:
	}
	w.shift.Store(int64(-12*time.Hour + 300*time.Millisecond)) // signed in almost 12 hours ago
	short := w.cookie(w.owner, "user:alice", palyra.RoleOwner)
	w.shift.Store(0)
	w.endsSoon("the stream of a session whose time came", w.follow(w.browser(), "http://"+w.console, cookieHead(short)))
}

// A role that is taken away is gone from the next request on, at every door.
func TestRoleChangeReachesSessions(t *testing.T) {
	w := newWorld(t, nil)
	k := w.person("bob", palyra.RoleOwner)
	session := w.cookie(k, "user:bob", palyra.RoleOwner)
	m := find(t, "GetHead")
	ask := func() palyra.Reason {
		why, err := w.sendTo(w.browser(), "http://"+w.console, m, m.request(t), cookieHead(session))
		w.must(err)
		return why
	}
	if why := ask(); why != let {
		t.Fatal(why)
	}
	_, err := w.registry.ChangeUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleViewer}, w.by())
	w.must(err)
	if why := ask(); why == let {
		t.Error("a session keeps the role that its person has lost")
	}
	signed := intent(k.intent(t, m, m.request(t), rpctest.StateID, time.Now()))
	if why := w.send("operator", m, m.request(t), signed); why != palyra.ReasonPermission {
		t.Errorf("the key: %q", why)
	}
}

// Streams that are opened while a credential ends are ended, too: none survives.
func TestNoStreamSurvivesTheRace(t *testing.T) {
	w := newWorld(t, nil)
	for range 20 {
		id, token := w.apiToken("user:alice", 0, time.Hour, "approvals.view")
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				ctx, info := connect.NewClientContext(ctx)
				info.RequestHeader().Set("Authorization", "Bearer "+token)
				<-begin
				stream, err := palyrav1connect.NewApprovalsServiceClient(w.unix("operator", false), "http://palyra").WatchApprovals(ctx,
					&v1.WatchApprovalsRequest{})
				if err != nil {
					return
				}
				for stream.Receive() {
				}
				if ctx.Err() != nil {
					t.Errorf("a stream survived its token")
				}
				_ = stream.Close()
			})
		}
		close(begin)
		w.must(w.registry.RevokeToken(t.Context(), id, w.by()))
		wg.Wait()
	}
}

// The door for devices opens and closes while the server stops: afterwards it is
// closed, whoever came last.
func TestStopWhileTheRemoteDoorOpens(t *testing.T) {
	for range 5 {
		w := newWorld(t, nil)
		d := w.pair("laptop", palyra.RoleOwner)
		stream := w.follow(d.http, d.base, nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					w.server.CloseRemote()
					if _, err := w.server.OpenRemote(rpc.RemoteConfig{Listen: "127.0.0.1:0", TLS: w.authority.Server(serverConfig)}); err != nil {
						return
					}
				}
			})
		}
		w.must(w.stop())
		wg.Wait()
		w.endsSoon("the stream", stream)
		if a := w.server.RemoteAddress(); a != "" {
			t.Errorf("it is open at %s after the stop", a)
		}
		if _, err := w.server.OpenConsole("127.0.0.1:0"); err == nil || w.server.ConsoleAddress() != "" {
			t.Error("the console opens after the stop")
		}
	}
}

// A stop tells devices why, as it tells everybody.
func TestStopTellsDevices(t *testing.T) {
	w := newWorld(t, nil)
	d := w.pair("laptop", palyra.RoleOwner)
	stream := w.follow(d.http, d.base, nil)
	browser := w.follow(w.browser(), "http://"+w.console, cookieHead(w.cookie(w.owner, "user:alice", palyra.RoleOwner)))
	w.must(w.stop())
	for name, ended := range map[string]<-chan *palyra.Error{"device": stream, "browser": browser} {
		if e := <-ended; e.Reason != palyra.ReasonStopping {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// Whoever pairs may be what closes the door: that does not wait for itself.
func TestPairingClosesTheDoor(t *testing.T) {
	w := newWorld(t, nil)
	closed := make(chan struct{})
	w.onPair = func() {
		w.server.CloseRemote()
		close(closed)
	}
	_ = w.get(w.newcomer(newKey()))
	select {
	case <-closed:
	case <-time.After(soon):
		t.Fatal("the door does not close")
	}
	w.openRemote()
	d := w.pair("laptop", palyra.RoleOwner)
	if got := w.get(d.conf); got != "200" {
		t.Errorf("opened again it answers %q", got)
	}
}

// A token that is gone without a word to the doors, because another gateway took it
// away or because its time came, is noticed when it is looked at again: its streams
// end, at every door that takes tokens, and nobody else's.
func TestStreamsOfLostTokensEnd(t *testing.T) {
	nothingLeft(t)
	w := newBriefWorld(t, 64)
	d := w.pair("laptop", palyra.RoleOwner)
	id, removed := w.apiToken("user:alice", 0, time.Hour, "approvals.view")
	_, expiring := w.apiToken("user:alice", time.Hour-2*time.Second, time.Hour, "approvals.view")
	_, good := w.apiToken("user:alice", 0, time.Hour, "approvals.view")
	lost, kept := map[string]<-chan *palyra.Error{}, map[string]<-chan *palyra.Error{}
	for door, c := range map[string]*device{"operator": {base: "http://palyra", http: w.unix("operator", false)}, "remote": d} {
		kept[door] = w.follow(c.http, c.base, bearer(good))
		lost[door+", removed"] = w.follow(c.http, c.base, bearer(removed))
		lost[door+", expired"] = w.follow(c.http, c.base, bearer(expiring))
	}
	elsewhere, err := access.New(access.Config{DB: w.registry.DB, Journal: w.journal, StateID: rpctest.StateID, Now: time.Now})
	w.must(err)
	w.must(elsewhere.RevokeToken(t.Context(), id, w.by()))
	for what, ended := range lost {
		select {
		case e := <-ended:
			if e == nil || e.Reason != palyra.ReasonBadCredential || e.Remedy == "" {
				t.Errorf("%s: %+v", what, e)
			}
		case <-time.After(soon):
			t.Errorf("%s: the stream goes on", what)
		}
	}
	for what, ended := range kept {
		select {
		case e := <-ended:
			t.Errorf("%s: the good token's stream ended: %v", what, e)
		default:
		}
	}
	w.must(w.stop())
	for what, ended := range kept {
		w.endsSoon(what, ended)
	}
}

// A token's stream ends when the token does, and not when that is noticed.
func TestStreamEndsWhenItsTokenExpires(t *testing.T) {
	w := newWorld(t, nil) // which looks at tokens again after 15 s
	d := w.pair("laptop", palyra.RoleOwner)
	_, token := w.apiToken("user:alice", time.Hour-time.Second, time.Hour, "approvals.view")
	_, good := w.apiToken("user:alice", 0, time.Hour, "approvals.view")
	kept := w.follow(d.http, d.base, bearer(good))
	local := w.follow(w.unix("operator", false), "http://palyra", bearer(token))
	far := w.follow(d.http, d.base, bearer(token))
	w.endsSoon("the stream at the socket", local)
	w.endsSoon("the device's", far)
	select {
	case e := <-kept:
		t.Errorf("another token's stream ended: %v", e)
	default:
	}
}
