package push

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/internal/approval"
	"palyra/internal/ca"
	"palyra/internal/config"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/webpush/webpushtest"
)

// bench is a Push with a real push service on this machine, a real store, and a desk and a registry that say what the test says.
type bench struct {
	*Push
	t       *testing.T
	keys    string // their directory
	config  Config
	service *httptest.Server
	answer  atomic.Int64
	hang    chan struct{} // the service answers nobody before it is closed; nil: at once
	changes chan approval.Change
	log     *safeBuffer
	trouble atomic.Value

	mu      sync.Mutex
	took    []taken
	devices []palyra.Device
	within  map[palyra.Principal][]string
	gone    map[palyra.Principal]bool
	onEnd   func(string)
	lines   []palyra.NoticesChanged
}

type taken struct {
	path, auth, topic string
	body              []byte
}

type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *bench) Devices(context.Context) ([]palyra.Device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]palyra.Device(nil), b.devices...), nil
}

func (b *bench) Cap(_ context.Context, p palyra.Principal) (palyra.Role, []string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone[p] {
		return "", nil, palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "removed")
	}
	return palyra.RoleApprover, b.within[p], nil
}

func (b *bench) Permits(palyra.Role, palyra.Permission, bool) bool { return true }
func (b *bench) OnEnd(f func(string))                              { b.onEnd = f }

func (b *bench) Watch(ctx context.Context, _ palyra.ApprovalFilter, tell func(approval.Change) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-b.changes:
			if err := tell(c); err != nil {
				return err
			}
		}
	}
}

func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	b.mu.Lock()
	b.took = append(b.took, taken{r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Topic"), body})
	hang := b.hang
	b.mu.Unlock()
	if hang != nil {
		<-hang
	}
	w.WriteHeader(int(b.answer.Load()))
}

// line takes a line, which counts once its transaction does.
func (b *bench) line(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	tx.OnDone(func(committed bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if committed {
			b.lines = append(b.lines, e.(palyra.NoticesChanged))
		}
	})
	return palyra.Position{}, nil
}

// said are the lines about subscriptions since it was asked last, when there are n of them.
func (b *bench) said(n int) (all []string) {
	b.t.Helper()
	b.until("the lines", func(map[string]*browser) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.lines) >= n
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		signed := "nobody"
		if l.Signature != nil {
			signed = l.Signature.Intent.KeyID
		}
		all = append(all, strings.Join([]string{l.Change, l.Device, l.Service, string(l.By), signed}, " "))
	}
	b.lines = nil
	return all
}

// signedUp has a device subscribe with a browser's keys.
func (b *bench) signedUp(d palyra.Device, endpoint string, w webpushtest.Browser) error {
	return b.SubscribeNotices(b.t.Context(), d, signs(d), endpoint, w.Key.PublicKey().Bytes(), w.Auth)
}

// signs is what a browser signs.
func signs(d palyra.Device) palyra.Signature {
	return palyra.Signature{Intent: palyra.Intent{KeyID: "key of " + d.ID}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func browserOf(id string, p palyra.Principal) palyra.Device {
	return palyra.Device{ID: id, Name: id, Principal: p, Role: palyra.RoleApprover, ExpiresAt: time.Now().Add(time.Hour)}
}

// newBench makes a Push that tells the browsers dev-1 and dev-2.
func newBench(t *testing.T, change ...func(*config.Config)) *bench {
	t.Helper()
	b := &bench{
		t: t, changes: make(chan approval.Change), log: &safeBuffer{},
		within: map[palyra.Principal][]string{}, gone: map[palyra.Principal]bool{},
		devices: []palyra.Device{browserOf("dev-1", "user:alice"), browserOf("dev-2", "user:bob")},
	}
	b.answer.Store(http.StatusCreated)
	b.service = httptest.NewTLSServer(b)
	t.Cleanup(b.service.Close)
	dir := filepath.Join(t.TempDir(), "keys")
	must(t, os.Mkdir(dir, 0o700))
	engine, err := sqlite.Open(filepath.Join(dir, "state.db"))
	must(t, err)
	db, err := store.Open(t.Context(), engine, Schema())
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	b.config = Config{
		DB: db, Append: b.line, Desk: b, Registry: b, Now: time.Now, Log: slog.New(slog.NewTextHandler(b.log, nil)),
		Trouble: func(err error) { b.trouble.Store(fmt.Sprint(err)) },
	}
	b.config.Keys, b.keys = ca.Files(dir), dir
	b.config.Settings.Approvals.WaitMS = 60_000
	b.config.Settings.Console.Push = "mailto:me@example.com"
	b.config.Settings.Console.PushServices = []string{strings.TrimPrefix(b.service.URL, "https://"), "*.push.example"}
	for _, f := range change {
		f(&b.config.Settings)
	}
	b.open()
	return b
}

// open makes the Push anew, as a daemon does that starts.
func (b *bench) open() {
	b.t.Helper()
	p, err := New(b.t.Context(), b.config)
	must(b.t, err)
	p.pace = pace{settle: 20 * time.Millisecond, gap: 150 * time.Millisecond, most: time.Second, wait: 5 * time.Second}
	p.roots = x509.NewCertPool()
	p.roots.AddCert(b.service.Certificate())
	b.Push = p
}

// run runs it until the returned function is called.
func (b *bench) run() (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	over := make(chan error, 1)
	p := b.Push
	go func() { over <- p.Run(ctx) }()
	b.changes <- approval.Change{Kind: approval.ChangeReady}
	return func() {
		cancel()
		must(b.t, <-over)
	}
}

func (b *bench) subscribe(device int, path string) webpushtest.Browser {
	b.t.Helper()
	w := webpushtest.New(b.t)
	must(b.t, b.signedUp(b.devices[device], b.service.URL+path, w))
	return w
}

// question comes, or goes.
func (b *bench) question(id string, risk palyra.RiskLevel, place string, pending bool) {
	a := palyra.Approval{ID: palyra.ApprovalID(id)}
	a.Prompt.Risk.Level, a.Prompt.Summary, a.Plan.Workspace.Path = risk, "rm -rf /secret", place
	if !pending {
		a.Decision.Answer = palyra.AnswerDeny
	}
	b.changes <- approval.Change{Kind: approval.ChangeUpdated, Approval: a}
}

// wait waits until the service took n messages, and returns them.
func (b *bench) wait(n int) []taken {
	b.t.Helper()
	for late := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		b.mu.Lock()
		all := append([]taken(nil), b.took...)
		b.mu.Unlock()
		if len(all) >= n {
			return all
		}
		if time.Now().After(late) {
			b.t.Fatalf("%d messages of %d\n%s", len(all), n, b.log)
		}
	}
}

// until waits until a condition holds of the subscriptions.
func (b *bench) until(what string, holds func(told map[string]*browser) bool) {
	b.t.Helper()
	for late := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		b.Push.mu.Lock()
		ok := holds(b.told)
		b.Push.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(late) {
			b.t.Fatalf("never: %s\n%s", what, b.log)
		}
	}
}

func (b *bench) rows() (n int64) {
	must(b.t, b.DB.Read(b.t.Context(), func(tx *store.Tx) error { return tx.Get(`SELECT COUNT(*) FROM push_subscriptions`, nil, &n) }))
	return n
}

// shows waits until the status has a text.
func (b *bench) shows(text string) {
	b.t.Helper()
	b.until("the status has "+text, func(map[string]*browser) bool {
		said, _ := b.trouble.Load().(string)
		return strings.Contains(said, text)
	})
}

// empty waits until no row is left.
func (b *bench) empty() { b.rowsFall(0) }

// rowsFall waits until n rows are left.
func (b *bench) rowsFall(n int64) {
	b.t.Helper()
	for late := time.Now().Add(20 * time.Second); b.rows() != n; <-time.After(5 * time.Millisecond) {
		if time.Now().After(late) {
			b.t.Fatalf("%d rows stay", b.rows())
		}
	}
}

// A question is told to each browser, encrypted for it, by a sender that the service knows; the message says how many wait and
// how risky, and nothing of what is asked. A storm of questions is a few messages.
func TestAQuestionIsTold(t *testing.T) {
	b := newBench(t)
	one, two := b.subscribe(0, "/one"), b.subscribe(1, "/two")
	stop := b.run()
	defer stop()
	b.question("A1", palyra.RiskHigh, "/w", true)
	for _, m := range b.wait(2) {
		own, other := one, two
		if m.path == "/two" {
			own, other = two, one
		}
		text, err := own.Open(m.body)
		if err != nil || string(text) != `{"waiting":1,"risk":"high"}` {
			t.Errorf("%q %v", text, err)
		}
		if _, err := other.Open(m.body); err == nil {
			t.Error("another browser reads it")
		}
		said, err := webpushtest.Claims(m.auth, b.key.Public())
		left := time.Until(time.Unix(said.Expires, 0))
		if err != nil || said.Audience != b.service.URL || said.Subject != "mailto:me@example.com" || left <= 0 || left > 24*time.Hour {
			t.Errorf("%+v %v", said, err)
		}
		if m.topic != "palyra" {
			t.Errorf("%q", m.topic)
		}
	}
	for i := range 1000 {
		b.question(fmt.Sprintf("B%d", i), palyra.RiskLow, "/w", true)
	}
	b.until("all are told", func(told map[string]*browser) bool {
		return told["dev-1"].told == 1001 && told["dev-2"].told == 1001
	})
	all := b.wait(4)
	if len(all) > 16 {
		t.Errorf("%d messages", len(all))
	}
	last := all[len(all)-1]
	own := one
	if last.path == "/two" {
		own = two
	}
	var n notice
	text, err := own.Open(last.body)
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil || n.Waiting != 1001 || n.Risk != palyra.RiskHigh {
		t.Errorf("%+v %v", n, err)
	}
	if f := b.Feature(map[string]string{})["push"]; !strings.Contains(f, "2 browsers") || !strings.Contains(f, " 0 failed") {
		t.Error(f)
	}
	if log := b.log.String(); strings.Contains(log, "/one") || strings.Contains(log, "/two") {
		t.Errorf("the log names an endpoint: %s", log)
	}
}

// What was there before a daemon started, what was answered at once, and what somebody does not reach is not told.
func TestWhatIsNotTold(t *testing.T) {
	b := newBench(t)
	b.subscribe(0, "/one")
	b.subscribe(1, "/two")
	b.within["user:bob"] = []string{"/bob"}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- b.Run(ctx) }()
	old := approval.Change{Kind: approval.ChangeOpen, Approval: palyra.Approval{ID: "OLD"}}
	b.changes <- old
	b.changes <- approval.Change{Kind: approval.ChangeReady}
	b.question("A1", palyra.RiskHigh, "/w", true)
	b.question("A1", palyra.RiskHigh, "/w", false)
	b.changes <- approval.Change{Kind: approval.ChangeLagged} // and what was known before is no news after it
	b.changes <- old
	b.changes <- approval.Change{Kind: approval.ChangeReady}
	b.question("A2", "strange", "/alice", true)
	if all := b.wait(1); all[0].path != "/one" {
		t.Errorf("%+v", all)
	}
	b.question("A3", palyra.RiskLow, "/bob/x", true)
	b.until("both", func(told map[string]*browser) bool { return told["dev-2"].Sent == 1 && told["dev-1"].Sent == 2 })
	cancel()
	must(t, <-over)
	if n := len(b.wait(3)); n != 3 {
		t.Errorf("%d messages", n)
	}
}

// A subscription ends with its browser, with its person, and when the service knows it no more: its row too.
func TestSubscriptionsEnd(t *testing.T) {
	b := newBench(t)
	b.subscribe(0, "/one")
	b.subscribe(1, "/two")
	stop := b.run()
	b.onEnd("device:dev-1")
	if n, err := b.Notices(t.Context()); err != nil || len(n.Subscriptions) != 1 {
		t.Errorf("%+v %v", n, err)
	}
	b.mu.Lock()
	b.gone["user:bob"] = true
	b.mu.Unlock()
	b.onEnd("user:bob")
	b.until("bob is gone", func(told map[string]*browser) bool { return len(told) == 0 })
	b.empty()
	stop()
	for _, gone := range []int64{http.StatusNotFound, http.StatusGone} {
		b.open()
		b.subscribe(0, "/one")
		b.answer.Store(gone)
		stop := b.run()
		b.question(fmt.Sprint("G", gone), palyra.RiskLow, "/w", true)
		b.until("it is gone", func(told map[string]*browser) bool { return len(told) == 0 })
		b.empty()
		stop()
	}
	b.devices[0].RevokedAt = time.Now()
	b.open()
	w := webpushtest.New(t)
	err := b.signedUp(b.devices[0], b.service.URL, w)
	if palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("a revoked browser subscribes: %v", err)
	}
}

// A service that fails or hangs is counted and shown, and asked less and less; no question waits for it.
func TestAServiceThatFails(t *testing.T) {
	b := newBench(t)
	b.subscribe(0, "/one")
	b.answer.Store(http.StatusInternalServerError)
	stop := b.run()
	b.question("A1", palyra.RiskLow, "/w", true)
	b.until("it failed twice", func(told map[string]*browser) bool { return told["dev-1"].Failed >= 2 })
	n, err := b.Notices(t.Context())
	if err != nil || !strings.Contains(n.Subscriptions[0].Problem, "500") || strings.Contains(n.Subscriptions[0].Problem, "/one") {
		t.Errorf("%+v %v", n, err)
	}
	b.shows("500")
	b.answer.Store(http.StatusCreated)
	b.until("it is told", func(told map[string]*browser) bool { return told["dev-1"].Sent == 1 && told["dev-1"].Problem == "" })
	b.shows("<nil>")
	w := b.subscribe(1, "/two") // who works does not hide who does not, and what ended is no trouble
	b.answer.Store(http.StatusForbidden)
	b.question("A3", palyra.RiskLow, "/w", true)
	b.shows("403")
	must(t, b.UnsubscribeNotices(t.Context(), b.devices[0], signs(b.devices[0])))
	must(t, b.UnsubscribeNotices(t.Context(), b.devices[1], signs(b.devices[1])))
	b.shows("<nil>")
	b.answer.Store(http.StatusCreated)
	must(t, b.signedUp(b.devices[0], b.service.URL+"/one", w))
	hang := make(chan struct{})
	b.mu.Lock()
	b.hang = hang
	n0 := len(b.took)
	b.mu.Unlock()
	b.question("A2", palyra.RiskLow, "/w", true)
	b.wait(n0 + 1)
	for i := range 100 { // the desk is heard while the service hangs
		b.question(fmt.Sprint("H", i), palyra.RiskLow, "/w", true)
	}
	stop() // and the end waits for no service
	close(hang)
}

// Endpoints lead to the services that the settings name, at addresses that are public or written out there; to nothing else.
func TestWhereEndpointsLead(t *testing.T) {
	b := newBench(t)
	w := webpushtest.New(t)
	at := strings.TrimPrefix(b.service.URL, "https://")
	_, port, _ := strings.Cut(at, ":")
	for endpoint, want := range map[string]bool{
		"https://" + at + "/x":                  true,
		"https://a.push.example/x":              true,
		"https://a.push.example:443/x":          true,
		"https://push.example/x":                false,
		"https://evilpush.example/x":            false,
		"https://a.push.example.evil.example/x": false,
		"https://a.push.example:8443/x":         false,
		"https://localhost:" + port + "/x":      false,
		"https://127.0.0.1/x":                   false,
		"https://[::1]:" + port + "/x":          false,
		"https://2130706433:" + port + "/x":     false,
		"https://127.1:" + port + "/x":          false,
		"https://169.254.169.254/latest":        false,
		"http://" + at + "/x":                   false,
		"https://user@" + at + "/x":             false,
		"https://" + at + "@evil.example/x":     false,
		"https://a.push.example\\@evil/x":       false,
	} {
		err := b.signedUp(b.devices[0], endpoint, w)
		if (err == nil) != want {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	b = newBench(t, func(c *config.Config) { c.Console.PushServices = []string{"*.0.0.1", "inside.localhost.example"} })
	if err := b.signedUp(b.devices[0], b.service.URL, w); err == nil {
		t.Error("an address is taken for a name below a suffix")
	}
}

// A service whose name leads to this machine is not reached.
func TestNamesThatLeadInside(t *testing.T) {
	host, err := os.Hostname()
	must(t, err)
	b := newBench(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(b.service.URL, "https://"), ":")
	b.config.Settings.Console.PushServices = []string{strings.ToLower(host) + ":" + port, "inside.localhost:" + port}
	b.open()
	for _, name := range []string{strings.ToLower(host), "inside.localhost"} {
		w := webpushtest.New(t)
		must(t, b.signedUp(b.devices[0], "https://"+name+":"+port+"/x", w))
		e := errand{device: "dev-1", to: b.told["dev-1"].to, text: []byte("x")}
		if err := b.deliver(t.Context(), e); err == nil {
			t.Errorf("%s is reached", name)
		}
	}
	if len(b.took) != 0 {
		t.Errorf("%+v", b.took)
	}
}

// A service that leads elsewhere is not followed.
func TestRedirectsAreNotFollowed(t *testing.T) {
	inside := 0
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside++ }))
	defer secret.Close()
	b := newBench(t)
	w := b.subscribe(0, "/one")
	b.service.Config.Handler = http.RedirectHandler(secret.URL, http.StatusTemporaryRedirect)
	e := errand{device: "dev-1", to: b.told["dev-1"].to, text: []byte("x")}
	if err := b.deliver(t.Context(), e); err == nil || inside != 0 {
		t.Errorf("%v, %d inside (%T)", err, inside, w)
	}
}

// Off, nothing is kept, sent or made; the key is a private file of its own, and the same after a start.
func TestOffAndTheKey(t *testing.T) {
	off := newBench(t, func(c *config.Config) { c.Console.Push = "off" })
	n, err := off.Notices(t.Context())
	if err != nil || !strings.Contains(n.Off, "console.push") || n.PublicKey != nil {
		t.Errorf("%+v %v", n, err)
	}
	w := webpushtest.New(t)
	err = off.signedUp(off.devices[0], "https://a.push.example/x", w)
	if palyra.AsError(err).Reason != palyra.ReasonDisabled {
		t.Errorf("%v", err)
	}
	file := filepath.Join(off.keys, "push.key")
	if _, err := os.Stat(file); err == nil {
		t.Error("a key was made")
	}
	b := newBench(t)
	file = filepath.Join(b.keys, "push.key")
	if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", i, err)
	}
	b.subscribe(0, "/one")
	before := b.key.Public()
	b.open()
	if !bytes.Equal(before, b.key.Public()) || len(b.told) != 1 {
		t.Errorf("another key, or %d are told", len(b.told))
	}
	must(t, os.Chmod(file, 0o644))
	if _, err := New(t.Context(), b.config); palyra.AsError(err).Remedy == "" {
		t.Errorf("a key that others read: %v", err)
	}
	must(t, os.Chmod(file, 0o600))
	must(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	if _, err := New(t.Context(), b.config); err == nil || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
	must(t, os.Remove(file)) // as the remedy says
	if p, err := New(t.Context(), b.config); err != nil || bytes.Equal(before, p.key.Public()) {
		t.Errorf("no new key is made: %v", err)
	}
}

// A browser has one subscription, an endpoint one browser, and all browsers have so many.
func TestHowManySubscriptions(t *testing.T) {
	b := newBench(t)
	b.subscribe(0, "/one")
	b.subscribe(0, "/two")
	b.subscribe(1, "/two")
	if len(b.told) != 1 || b.told["dev-2"] == nil || b.rows() != 1 {
		t.Errorf("%+v, %d rows", b.told, b.rows())
	}
	must(t, b.UnsubscribeNotices(t.Context(), b.devices[1], signs(b.devices[1])))
	if len(b.told) != 0 || b.rows() != 0 {
		t.Errorf("%+v, %d rows", b.told, b.rows())
	}
	for i := range maxBrowsers {
		b.devices[0] = browserOf(fmt.Sprintf("dev-x%d", i), "user:alice")
		b.subscribe(0, fmt.Sprintf("/%d", i))
	}
	w := webpushtest.New(t)
	err := b.signedUp(browserOf("dev-more", "user:alice"), b.service.URL+"/more", w)
	if palyra.CodeOf(err) != palyra.Exhausted {
		t.Errorf("%v", err)
	}
	for _, d := range []palyra.Device{{}, {ID: "dev-m", Certificate: "sha256:00"}, {ID: "dev-p", Passkey: &palyra.Passkey{}}} {
		err := b.signedUp(d, b.service.URL, w)
		if palyra.AsError(err).Reason != palyra.ReasonDeviceRequired {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// Who is told, and no longer, is on record, with what their browser signed; the service's host is, and nothing by which one
// could send there.
func TestSubscriptionsAreOnRecord(t *testing.T) {
	b := newBench(t)
	at := strings.TrimPrefix(b.service.URL, "https://")
	expect := func(what string, want ...string) {
		t.Helper()
		if got := b.said(len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: %q", what, got)
		}
	}
	one := b.subscribe(0, "/one")
	expect("a subscription", "subscribed dev-1 "+at+" user:alice key of dev-1")
	w := webpushtest.New(t)
	must(t, b.signedUp(b.devices[0], "https://a.push.example:443/two", w))
	expect("another service", "subscribed dev-1 a.push.example user:alice key of dev-1")
	b.subscribe(0, "/one")
	b.said(1)
	b.subscribe(1, "/one")
	expect("a browser of the same endpoint", "replaced dev-1 "+at+" user:bob nobody", "subscribed dev-2 "+at+" user:bob key of dev-2")
	must(t, b.UnsubscribeNotices(t.Context(), b.devices[0], signs(b.devices[0])))
	expect("one that subscribed nothing")
	must(t, b.UnsubscribeNotices(t.Context(), b.devices[1], signs(b.devices[1])))
	expect("no longer", "unsubscribed dev-2 "+at+" user:bob key of dev-2")
	must(t, b.signedUp(b.devices[0], b.service.URL+"/three", one))
	b.subscribe(1, "/four")
	b.mu.Lock()
	for _, l := range b.lines {
		raw, err := json.Marshal(l)
		if err != nil || bytes.Contains(raw, []byte("three")) || bytes.Contains(raw, []byte("four")) {
			t.Errorf("%s %v", raw, err)
		}
	}
	b.mu.Unlock()
	b.said(2)
	stop := b.run()
	b.onEnd("device:dev-1")
	b.rowsFall(1)
	expect("its device is revoked", "ended dev-1 "+at+" system:daemon nobody")
	b.answer.Store(http.StatusGone)
	b.question("A1", palyra.RiskLow, "/w", true)
	b.rowsFall(0)
	expect("the service says so", "gone dev-2 "+at+" system:daemon nobody")
	stop()
}

// lockable is a vault that the key was moved into.
type lockable struct {
	ca.KeyStore
	locked atomic.Bool
}

func (l *lockable) Load(ctx context.Context, name string) (palyra.Secret, error) {
	if l.locked.Load() {
		return palyra.Secret{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, "locked").WithRemedy("palyra vault unlock")
	}
	return l.KeyStore.Load(ctx, name)
}

// A key that lies in a vault that is locked is no reason not to start, and no new one takes its place: browsers are told once
// the vault is open, and until then the status and the page say why not.
func TestTheKeyInALockedVault(t *testing.T) {
	b := newBench(t)
	b.subscribe(0, "/one")
	before := b.Push.key.Public()
	vault := &lockable{KeyStore: b.config.Keys}
	vault.locked.Store(true)
	b.config.Keys = vault
	b.open()
	n, err := b.Notices(t.Context())
	if err != nil || !strings.Contains(n.Off, "palyra vault unlock") || n.PublicKey != nil {
		t.Errorf("%+v %v", n, err)
	}
	stop := b.run()
	defer stop()
	b.question("A1", palyra.RiskHigh, "/w", true)
	b.shows("in the vault, which does not open")
	if b.mu.Lock(); len(b.took) > 0 {
		t.Errorf("%+v", b.took)
	}
	b.mu.Unlock()
	vault.locked.Store(false)
	b.wait(1)
	b.shows("<nil>")
	if n, err = b.Notices(t.Context()); err != nil || !bytes.Equal(n.PublicKey, before) {
		t.Errorf("%+v %v", n, err)
	}
}
