package signing

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"palyra"
	"palyra/internal/gitobject"
	"palyra/internal/gitwire"
	"palyra/internal/signing/gitssh"
	"palyra/internal/signwire"
	"palyra/secrets"
)

// The bounds of a run's desk.
const (
	maxAskers     = 8   // at once
	maxSignatures = 500 // of a run
	askWithin     = 20 * time.Second
)

// desk signs the commits and tags of one run, and connects its git to servers, each once it was shown and allowed. Locks:
// mu is a leaf.
type desk struct {
	*Broker
	binding secrets.Binding // of the key that signs; without a name: none does
	key     key
	git     []gitssh.PinnedKey // that log in for git
	ctx     context.Context
	cancel  context.CancelFunc
	places  chan struct{}
	work    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	left   int
	open   map[io.Closer]bool
	signed map[string]string // commits that it signed, by id: the branch they went on
}

func newDesk(b *Broker) *desk {
	d := &desk{
		Broker: b, places: make(chan struct{}, maxAskers), left: maxSignatures, open: map[io.Closer]bool{},
		signed: map[string]string{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// serve answers at a listener until close. It does not block.
func (d *desk) serve(l net.Listener) {
	if !d.keep(l) {
		return
	}
	d.work.Go(func() {
		defer d.drop(l)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case d.places <- struct{}{}:
			default:
				_ = c.Close()
				continue
			}
			if !d.keep(c) {
				return
			}
			d.work.Go(func() {
				defer func() { d.drop(c); <-d.places }()
				d.answer(c)
			})
		}
	})
}

func (d *desk) keep(c io.Closer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = c.Close()
		return false
	}
	d.open[c] = true
	return true
}

func (d *desk) drop(c io.Closer) {
	d.mu.Lock()
	delete(d.open, c)
	d.mu.Unlock()
	_ = c.Close()
}

func (d *desk) close() {
	d.mu.Lock()
	d.closed = true
	for c := range d.open {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.cancel()
	d.work.Wait()
}

// answer answers one request.
func (d *desk) answer(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(askWithin))
	var sig []byte
	kind, body, err := signwire.Read(c)
	switch {
	case err != nil:
		return
	case kind == signwire.Connect:
		if err = d.connect(c, body); err == nil {
			return
		}
	default:
		sig, err = d.sign(c, kind, body)
	}
	_ = c.SetDeadline(time.Now().Add(askWithin))
	if err != nil {
		e := palyra.AsError(err)
		text := e.Text
		if e.Remedy != "" {
			text += "\n" + e.Remedy
		}
		_ = signwire.Write(c, signwire.Refusal, []byte(text))
		return
	}
	_ = signwire.Write(c, signwire.Signature, sig)
}

// refusedText is a refusal that is told.
func (d *desk) refusedText(why string) error {
	d.refuse(d.ctx, why)
	return palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRefused, "%s", why).
		WithRemedy("let git ask for the signature: git commit -S, git tag -s")
}

// sign brings a request to its end: what is signed is what was brought, shown and allowed, to the byte.
func (d *desk) sign(c net.Conn, kind byte, body []byte) ([]byte, error) {
	payload, o, want, err := d.request(c, kind, body)
	if err != nil {
		return nil, err
	}
	r := gitobject.SignRequest{
		Binding: d.binding.Name, Key: secrets.Fingerprint(d.binding.Key), Payload: base64.StdEncoding.EncodeToString(payload),
		Digest: string(palyra.SumBytes(payload)),
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	if o.Kind == gitobject.KindCommit {
		r.Files = gitobject.Compare(ctx, o, fetcher(c))
		r.Branch = d.goesOn(o, want.Branch)
	}
	if !d.take() {
		return nil, d.refusedText("more signatures than a run gets")
	}
	watch(c, cancel)
	var grant palyra.GrantID
	err = d.asked(ctx, r.Binding, func(promise string) (err error) {
		r.Promise = promise
		grant, err = d.Ask(ctx, d.call, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	sig, err := d.key.sign(ctx, payload)
	if err != nil {
		return nil, err
	}
	err = d.Record(d.Broker.ctx, palyra.SignatureMade{
		Call: d.call.ID, Grant: grant, Binding: d.binding.Name, Type: o.Kind, Key: r.Key, Payload: r.Digest,
		Algorithm: d.key.format(),
	})
	if err != nil {
		return nil, err
	}
	if r.Branch != "" {
		d.mu.Lock()
		d.signed[gitobject.SignedCommit(payload, sig, o.Tree)] = r.Branch
		d.mu.Unlock()
	}
	return sig, nil
}

// request reads what a client brings. body is its first frame.
func (d *desk) request(c net.Conn, kind byte, body []byte) (payload []byte, o gitobject.Object, want signwire.Want, err error) {
	if kind != signwire.Request || !decode(body, &want) {
		return nil, o, want, d.refusedText("a request that cannot be read")
	}
	if d.binding.Name == "" || want.Format != d.key.format() || !d.key.called(want.Key) {
		return nil, o, want, d.refusedText("a signature by another key than the bound one")
	}
	kind, payload, err = signwire.Read(c)
	if err != nil || kind != signwire.Payload {
		return nil, o, want, d.refusedText("a signature without a payload")
	}
	if o, err = gitobject.Parse(payload); err != nil {
		return nil, o, want, d.refusedText("a signature of what is no commit and no tag")
	}
	return payload, o, want, nil
}

// decode reads what a client wants, and nothing that is not known.
func decode(body []byte, to any) bool {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	return len(body) <= 16<<10 && dec.Decode(to) == nil
}

// connect connects git to a server, for which a key logs in.
func (d *desk) connect(c net.Conn, body []byte) error {
	var w signwire.Way
	if !decode(body, &w) || len(d.git) == 0 {
		return d.refusedText("a connection that no key is for")
	}
	if !d.take() {
		return d.refusedText("more signatures than a run gets")
	}
	return gitssh.Config{
		Keys: d.git, Refused: d.refuse,
		Dial: func(ctx context.Context, at string) (net.Conn, error) { return d.Dial(ctx, d.call, at) },
		Ask: func(ctx context.Context, r gitwire.Request) error {
			return d.asked(ctx, r.Binding, func(promise string) error {
				r.Promise = promise
				return d.AskGit(ctx, d.call, r)
			})
		},
		Signed: func(ctx context.Context, u gitssh.Use) error {
			return d.Record(context.WithoutCancel(ctx), palyra.SignatureMade{
				Call: d.call.ID, Binding: u.Request.Binding, Type: "ssh_login", Key: u.Request.Key, Payload: string(u.Digest), Algorithm: u.Algorithm,
				HostKey: u.Request.HostKey, User: palyra.Clip(u.Request.User, 128), For: u.Request.At,
				Shown: u.Request.Service + " " + palyra.Clip(u.Request.Remote(), 512),
			})
		},
	}.Serve(d.ctx, c, w)
}

func (d *desk) take() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.left == 0 {
		return false
	}
	d.left--
	return true
}

var errFetch = errors.New("signing: no object")

// fetcher asks the client for objects.
func fetcher(c net.Conn) gitobject.Fetch {
	return func(_ context.Context, id string) (string, []byte, error) {
		if err := signwire.Write(c, signwire.NeedID, []byte(id)); err != nil {
			return "", nil, err
		}
		kind, body, err := signwire.Read(c)
		if err != nil {
			return "", nil, err
		}
		is, content, ok := strings.Cut(string(body), "\x00")
		if kind != signwire.Object || !ok {
			return "", nil, errFetch
		}
		return is, []byte(content), nil
	}
}

// watch cancels when the client goes away, or says something while it should wait.
func watch(c net.Conn, cancel func()) {
	_ = c.SetDeadline(time.Time{})
	go func() {
		var one [1]byte
		_, _ = c.Read(one[:])
		cancel()
	}()
}
