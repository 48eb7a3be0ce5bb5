package signing

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"palyra"
	"palyra/internal/gitobject"
	"palyra/internal/signwire"
	"palyra/secrets"
)

const commit = `tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904
author Ann <ann@example.com> 1700000000 +0100
committer Ann <ann@example.com> 1700000000 +0100

subject
`

// people are those who are asked, and the record.
type people struct {
	mu      sync.Mutex
	asked   []gitobject.SignRequest
	record  []palyra.Event
	refused []string
	no      error
	unkept  error
	wait    chan struct{} // not nil: they take their time
	vault   func() ([]secrets.Loan, error)
	during  func() // not nil: happens while they are asked
}

func (p *people) config() Config {
	return Config{
		Record: func(_ context.Context, e palyra.Event) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.unkept == nil {
				p.record = append(p.record, e)
			}
			return p.unkept
		},
		Refused: func(_ context.Context, _ *palyra.Call, why string, _ int64) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.refused = append(p.refused, why)
		},
		Lend: func(context.Context, string) ([]secrets.Loan, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.vault()
		},
		Ask: func(ctx context.Context, _ *palyra.Call, r gitobject.SignRequest) (palyra.GrantID, error) {
			p.mu.Lock()
			p.asked = append(p.asked, r)
			wait := p.wait
			if p.during != nil {
				p.during()
			}
			p.mu.Unlock()
			if wait != nil {
				select {
				case <-wait:
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			return "grant", p.no
		},
	}
}

// lentKey is a key of ssh, lent by the binding "commits".
func lentKey(t *testing.T) (secrets.Loan, ssh.PublicKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	l := secrets.Loan{
		Binding: secrets.Binding{Name: "commits", Secret: "s", Kind: secrets.Signing}, Value: palyra.NewSecret(pem.EncodeToMemory(block)),
	}
	if l.Binding, err = Inspect(t.Context(), l.Binding, l.Value); err != nil {
		t.Fatal(err)
	}
	k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(l.Key))
	if err != nil {
		t.Fatal(err)
	}
	return l, k
}

// signingRun is a run with a broker that answers at a port.
type signingRun struct {
	*people
	t      *testing.T
	broker *Broker
	at     string
	key    ssh.PublicKey
	line   string
	lent   func() secrets.Loan // the key, as it was lent first
}

// again returns what lends a key again and again.
func again(t *testing.T, l secrets.Loan) func() secrets.Loan {
	t.Helper()
	var text []byte
	if err := l.Value.Use(func(raw []byte) error { text = bytes.Clone(raw); return nil }); err != nil {
		t.Fatal(err)
	}
	return func() secrets.Loan {
		return secrets.Loan{Binding: l.Binding, Value: palyra.NewSecret(bytes.Clone(text))}
	}
}

func newSigningRun(t *testing.T) *signingRun {
	t.Helper()
	r := &signingRun{people: &people{}, t: t}
	l, key := lentKey(t)
	r.key, r.line = key, l.Key
	r.lent = again(t, l)
	r.vault = func() ([]secrets.Loan, error) { return []secrets.Loan{r.lent()}, nil }
	call := &palyra.Call{ID: "call", Plan: palyra.Plan{Workspace: palyra.WorkspaceRef{Path: t.TempDir()}}}
	var err error
	if r.broker, err = Open(t.Context(), r.config(), call, []secrets.Loan{l}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.broker.Close)
	door, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.at = door.Addr().String()
	r.broker.desk.serve(door)
	return r
}

// bring sends frames, answers that there are no objects, and returns the last frame.
func (r *signingRun) bring(frames ...[]byte) (byte, []byte) {
	r.t.Helper()
	c, err := net.Dial("tcp4", r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	for _, f := range frames {
		if signwire.Write(c, f[0], f[1:]) != nil {
			return 0, nil
		}
	}
	for {
		kind, body, err := signwire.Read(c)
		if err != nil {
			return 0, nil
		}
		if kind != signwire.NeedID {
			return kind, body
		}
		_ = signwire.Write(c, signwire.Object, nil)
	}
}

func (r *signingRun) want(format, key string) []byte {
	raw, _ := json.Marshal(signwire.Want{Format: format, Key: key})
	return append([]byte{signwire.Request}, raw...)
}

func payloadFrame(text string) []byte { return append([]byte{signwire.Payload}, text...) }

// A commit is signed to the byte, as ssh-keygen would do it, and is on record.
func TestWhatIsShownIsSigned(t *testing.T) {
	r := newSigningRun(t)
	kind, sig := r.bring(r.want("ssh", r.line), payloadFrame(commit))
	if kind != signwire.Signature || !bytes.HasPrefix(sig, []byte("-----BEGIN SSH SIGNATURE-----\n")) {
		t.Fatalf("%c %s", kind, sig)
	}
	shown, err := base64.StdEncoding.DecodeString(r.asked[0].Payload)
	if err != nil || string(shown) != commit || r.asked[0].Digest != string(palyra.SumBytes([]byte(commit))) {
		t.Errorf("shown is %q", shown)
	}
	made, ok := r.record[0].(palyra.SignatureMade)
	if !ok || made.Payload != string(palyra.SumBytes([]byte(commit))) || made.Grant != "grant" || made.Type != "commit" ||
		made.Key != ssh.FingerprintSHA256(r.key) {
		t.Errorf("on record is %+v", r.record)
	}
}

// What is not a whole commit or tag, by the bound key, in git's way, is neither asked about nor signed.
func TestNoPayloadNoSignature(t *testing.T) {
	r := newSigningRun(t)
	_, other := lentKey(t)
	want := r.want("ssh", r.line)
	for what, frames := range map[string][][]byte{
		"a payload first":          {payloadFrame(commit), want},
		"no payload":               {want, {signwire.Request}},
		"a digest":                 {want, payloadFrame(string(palyra.SumBytes([]byte(commit))))},
		"a hash":                   {want, payloadFrame(strings.Repeat("\x07", 32))},
		"nothing":                  {want, payloadFrame("")},
		"any text":                 {want, payloadFrame("I owe you a million\n\nAnn\n")},
		"data of ssh-keygen":       {want, payloadFrame("SSHSIG\x00\x00\x00\x03git")},
		"a login":                  {want, payloadFrame("\x00\x00\x00\x20" + strings.Repeat("s", 32) + "2")},
		"another key":              {r.want("ssh", string(ssh.MarshalAuthorizedKey(other))), payloadFrame(commit)},
		"another format":           {r.want("openpgp", r.line), payloadFrame(commit)},
		"no key":                   {r.want("ssh", ""), payloadFrame(commit)},
		"a request with more":      {append([]byte{signwire.Request}, `{"format":"ssh","key":"`+r.line+`","namespace":"file"}`...), payloadFrame(commit)},
		"a line that is not known": {want, payloadFrame(strings.Replace(commit, "\n\n", "\nx-more y\n\n", 1))},
		"a signature in it":        {want, payloadFrame(strings.Replace(commit, "\n\n", "\ngpgsig y\n\n", 1))},
		"two trees":                {want, payloadFrame("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n" + commit)},
		"no message":               {want, payloadFrame(strings.TrimSuffix(commit, "\n\nsubject\n"))},
		"a NUL byte":               {want, payloadFrame(commit + "\x00hidden")},
		"an author with a line":    {want, payloadFrame(strings.Replace(commit, "Ann <", "Ann> <", 1))},
		"too long":                 {want, payloadFrame(commit + strings.Repeat("x", gitobject.MaxPayload))},
		"a frame of another kind":  {want, append([]byte{signwire.Object}, commit...)},
	} {
		if kind, body := r.bring(frames...); kind != signwire.Refusal {
			t.Errorf("%s: %c %s", what, kind, body)
		}
	}
	if len(r.asked) != 0 || len(r.record) != 0 {
		t.Errorf("asked is %+v, on record are %+v", r.asked, r.record)
	}
	if len(r.refused) != 4 {
		t.Errorf("told is %q", r.refused)
	}
}

// A no is one; so is a record that cannot be kept. Whoever goes away, or speaks while people think, gets nothing.
func TestNoSignatureWithoutAYes(t *testing.T) {
	r := newSigningRun(t)
	r.no = palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "not today")
	kind, body := r.bring(r.want("ssh", r.line), payloadFrame(commit))
	if kind != signwire.Refusal || !strings.Contains(string(body), "not today") {
		t.Errorf("a no: %c %s", kind, body)
	}
	r.no, r.unkept = nil, errors.New("the disk is full")
	if kind, body := r.bring(r.want("ssh", r.line), payloadFrame(commit)); kind != signwire.Refusal {
		t.Errorf("not on record: %c %s", kind, body)
	}
	r.unkept, r.wait = nil, make(chan struct{})
	swapped := strings.Replace(commit, "subject", "subjecT", 1)
	if kind, body := r.bring(r.want("ssh", r.line), payloadFrame(commit), payloadFrame(swapped)); kind != signwire.Refusal {
		t.Errorf("another payload after the first: %c %s", kind, body)
	}
	if len(r.record) != 0 {
		t.Errorf("on record are %+v", r.record)
	}
}

// A key that is another one than its binding's signs nothing.
func TestAnotherKeyIsRefused(t *testing.T) {
	l, _ := lentKey(t)
	other, _ := lentKey(t)
	l.Value = other.Value
	_, err := Open(t.Context(), (&people{}).config(), &palyra.Call{}, []secrets.Loan{l})
	if palyra.AsError(err).Reason != secrets.ReasonOtherKey {
		t.Error(err)
	}
}
