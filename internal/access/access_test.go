package access

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

const stateID = "state-1"

// journal keeps events the way the real one does: with the transaction.
type journal struct {
	mu     sync.Mutex
	events []palyra.Event
	fail   error
}

func (j *journal) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	if j.fail != nil {
		return palyra.Position{}, j.fail
	}
	tx.OnDone(func(ok bool) {
		if ok {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.events = append(j.events, e)
		}
	})
	return palyra.Position{Seq: 1}, nil
}

func (j *journal) kinds() (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events {
		out = append(out, e.Kind())
	}
	return out
}

// person is somebody with a key.
type person struct {
	palyra.Operator
	private ed25519.PrivateKey
}

func newPerson(name string, role palyra.Role) person {
	pub, priv, _ := ed25519.GenerateKey(rand.Reader)
	return person{private: priv, Operator: palyra.Operator{
		Principal: palyra.Principal("user:" + name), Role: role, KeyID: keyID(pub),
		PublicKey: base64.StdEncoding.EncodeToString(pub), Separation: palyra.SeparationNone,
	}}
}

// bench is a registry with an owner, and a clock to set.
type bench struct {
	*Registry
	t       *testing.T
	journal *journal
	path    string
	now     time.Time
	owner   person
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, journal: &journal{}, path: filepath.Join(t.TempDir(), "state.db"), now: time.Unix(1_800_000_000, 0).UTC()}
	b.open()
	b.owner = newPerson("alice", palyra.RoleOwner)
	if _, err := b.AddFirstOwner(t.Context(), b.owner.Operator, 1000); err != nil {
		t.Fatal(err)
	}
	return b
}

// open opens the state, again after a restart.
func (b *bench) open() {
	b.t.Helper()
	engine, err := sqlite.Open(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	db, err := store.Open(context.Background(), engine, Schema())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = db.Close() })
	b.Registry, err = New(Config{DB: db, Journal: b.journal, StateID: stateID, Now: func() time.Time { return b.now }})
	if err != nil {
		b.t.Fatal(err)
	}
}

var fields = map[string]any{"path": "/w"}

// sign returns a signature of p that is good now, after change.
func (b *bench) sign(p person, change func(*palyra.Intent)) palyra.Signature {
	b.t.Helper()
	body, err := palyra.IntentBody(fields)
	if err != nil {
		b.t.Fatal(err)
	}
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce)
	i := palyra.Intent{
		Audience: stateID, Method: "palyra.v1.X/Y", Body: body, Nonce: base64.RawURLEncoding.EncodeToString(nonce),
		Time: palyra.Time(b.now), KeyID: p.KeyID,
	}
	if change != nil {
		change(&i)
	}
	msg, err := i.Bytes()
	if err != nil {
		b.t.Fatal(err)
	}
	return palyra.Signature{Intent: i, Fields: fields, Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(p.private, msg))}
}

func (b *bench) add(name string, role palyra.Role) person {
	b.t.Helper()
	p := newPerson(name, role)
	if _, err := b.AddOperator(b.t.Context(), p.Operator, b.sign(b.owner, nil)); err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) wants(err error, reason palyra.Reason) {
	b.t.Helper()
	if err == nil || palyra.AsError(err).Reason != reason {
		b.t.Errorf("got %v (%s), want %s", err, palyra.AsError(err).Reason, reason)
	}
}

func TestFirstOwnerOnlyOnce(t *testing.T) {
	b := newBench(t)
	_, err := b.AddFirstOwner(t.Context(), newPerson("mallory", palyra.RoleOwner).Operator, 1001)
	b.wants(err, palyra.ReasonExists)
	b.open()
	_, err = b.AddFirstOwner(t.Context(), newPerson("mallory", palyra.RoleOwner).Operator, 1001)
	b.wants(err, palyra.ReasonExists)
	if k := b.journal.kinds(); len(k) != 2 || k[0] != "user.added" || k[1] != "operator.added" {
		t.Errorf("journal: %v", k)
	}
}

func TestOperators(t *testing.T) {
	b := newBench(t)
	admin := b.add("bob", palyra.RoleAdmin)
	second := newPerson("eve", palyra.RoleOwner)
	_, err := b.AddOperator(t.Context(), second.Operator, b.sign(admin, nil))
	b.wants(err, palyra.ReasonPermission)
	b.wants(b.RemoveOperator(t.Context(), b.owner.KeyID, b.sign(admin, nil)), palyra.ReasonPermission)
	b.wants(b.RemoveOperator(t.Context(), b.owner.KeyID, b.sign(b.owner, nil)), palyra.ReasonLastOwner)
	b.wants(b.RemoveOperator(t.Context(), "op-none", b.sign(b.owner, nil)), palyra.ReasonNotFound)

	second = b.add("eve", palyra.RoleOwner)
	if err := b.RemoveOperator(t.Context(), b.owner.KeyID, b.sign(second, nil)); err != nil {
		t.Fatal(err)
	}
	b.wants(b.RemoveOperator(t.Context(), second.KeyID, b.sign(second, nil)), palyra.ReasonLastOwner)
	b.wants(b.RemoveOperator(t.Context(), b.owner.KeyID, b.sign(second, nil)), palyra.ReasonNotFound)
	_, err = b.AddOperator(t.Context(), b.owner.Operator, b.sign(second, nil))
	b.wants(err, palyra.ReasonExists) // a removed key is not taken back
	_, err = b.AddOperator(t.Context(), newPerson("dan", palyra.RoleViewer).Operator, b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonUnknownKey) // a removed key signs nothing

	all, err := b.Operators(t.Context())
	if err != nil || len(all) != 3 || all[0].RemovedAt.IsZero() || !all[1].RemovedAt.IsZero() {
		t.Errorf("%+v %v", all, err)
	}
	want := []string{ // a person comes with their first key
		"user.added", "operator.added", "user.added", "operator.added", "user.added", "operator.added", "operator.removed",
	}
	if got := b.journal.kinds(); len(got) != len(want) {
		t.Errorf("journal: %v, want %v", got, want)
	}
}

func TestAddOperatorChangesSeparation(t *testing.T) {
	b := newBench(t)
	o := b.owner.Operator
	o.Separation = palyra.SeparationPassphrase
	got, err := b.AddOperator(t.Context(), o, b.sign(b.owner, nil))
	if err != nil || got.Separation != palyra.SeparationPassphrase {
		t.Fatalf("%+v %v", got, err)
	}
	all, _ := b.Operators(t.Context())
	if len(all) != 1 || all[0].Separation != palyra.SeparationPassphrase {
		t.Errorf("%+v", all)
	}
	_, err = b.AddOperator(t.Context(), o, b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonExists)
	o.Principal, o.Separation = "user:other", palyra.SeparationNone
	_, err = b.AddOperator(t.Context(), o, b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonExists)
}

func TestBadOperatorsAreRefused(t *testing.T) {
	b := newBench(t)
	good := newPerson("bob", palyra.RoleViewer).Operator
	for name, change := range map[string]func(*palyra.Operator){
		"agent":      func(o *palyra.Operator) { o.Principal = "agent:x" },
		"no name":    func(o *palyra.Operator) { o.Principal = "user:" },
		"odd name":   func(o *palyra.Operator) { o.Principal = "user:Al ice" },
		"look-alike": func(o *palyra.Operator) { o.Principal = "user:аlice" },
		"role agent": func(o *palyra.Operator) { o.Role = palyra.RoleAgent },
		"role none":  func(o *palyra.Operator) { o.Role = "" },
		"key":        func(o *palyra.Operator) { o.PublicKey = "AAAA" },
		"not base64": func(o *palyra.Operator) { o.PublicKey = "?" },
		"separation": func(o *palyra.Operator) { o.Separation = "moon" },
		"no device":  func(o *palyra.Operator) { o.Separation = palyra.SeparationDevice },
	} {
		o := good
		change(&o)
		if _, err := b.AddOperator(t.Context(), o, b.sign(b.owner, nil)); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	good.Separation, good.KeyID = "", "op-chosen"
	o, err := b.AddOperator(t.Context(), good, b.sign(b.owner, nil))
	if err != nil || o.KeyID == "op-chosen" || o.Separation != palyra.SeparationNone {
		t.Errorf("%+v %v", o, err)
	}
}

func TestPerson(t *testing.T) {
	b := newBench(t)
	o, err := b.Person(t.Context(), 1000)
	if err != nil || o.Principal != "user:alice" || o.Role != palyra.RoleOwner {
		t.Errorf("%+v %v", o, err)
	}
	_, err = b.Person(t.Context(), 1001)
	b.wants(err, palyra.ReasonNoCredential)
	_, err = b.Person(t.Context(), -1) // those added later have no uid
	b.wants(err, palyra.ReasonNoCredential)

	newKey := b.add("alice", palyra.RoleOwner)
	if err := b.RemoveOperator(t.Context(), b.owner.KeyID, b.sign(newKey, nil)); err != nil {
		t.Fatal(err)
	}
	if o, err := b.Person(t.Context(), 1000); err != nil || o.KeyID != newKey.KeyID {
		t.Errorf("after a change of keys: %+v %v", o, err)
	}
}

func TestNothingChangesWithoutItsLine(t *testing.T) {
	b := newBench(t)
	b.journal.fail = errors.New("the journal is down")
	if _, err := b.AddOperator(t.Context(), newPerson("bob", palyra.RoleViewer).Operator, b.sign(b.owner, nil)); err == nil {
		t.Error("added without a line")
	}
	if _, token, err := b.AddAgent(t.Context(), "ci", "", b.sign(b.owner, nil)); err == nil || !token.Empty() {
		t.Error("added an agent without a line")
	}
	b.journal.fail = nil
	if all, _ := b.Operators(t.Context()); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if all, _ := b.Agents(t.Context()); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("made from nothing")
	}
}
