package keeper

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"palyra"
	"palyra/internal/sessionbus"
	"palyra/internal/vault/keepertest"
)

// oddService is a Secret Service that does what no good one does, on a real bus. Where it has nothing odd to say it
// answers as one should: one open keyring, one item.
type oddService struct {
	bus    *dbus.Conn
	odd    string // what is odd about it
	called chan string

	mu   sync.Mutex
	key  []byte // of the last session
	text []byte // that is kept
}

const (
	oddItem   = dbus.ObjectPath("/org/freedesktop/secrets/collection/odd/1")
	oddRing   = dbus.ObjectPath("/org/freedesktop/secrets/collection/odd")
	oddPrompt = dbus.ObjectPath("/org/freedesktop/secrets/prompt/1")
)

func (o *oddService) OpenSession(algorithm string, input dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	switch o.odd {
	case "no such exchange":
		return dbus.Variant{}, noObject, dbus.NewError("org.freedesktop.DBus.Error.NotSupported", []any{algorithm})
	case "a text for a number":
		return dbus.MakeVariant("two"), noObject, nil
	case "a number that gives the key away":
		return dbus.MakeVariant([]byte{1}), noObject, nil
	case "a number out of the group":
		return dbus.MakeVariant(group.Bytes()), noObject, nil
	}
	own, public, err := newExchange()
	if err != nil {
		return dbus.Variant{}, noObject, dbus.MakeFailedError(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.key, err = shareKey(own, input.Value().([]byte)); err != nil {
		return dbus.Variant{}, noObject, dbus.MakeFailedError(err)
	}
	return dbus.MakeVariant(public), "/org/freedesktop/secrets/session/1", nil
}

func (o *oddService) SearchItems(map[string]string) (open, closed []dbus.ObjectPath, _ *dbus.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.odd == "silence":
		return nil, nil, dbus.NewError("org.freedesktop.DBus.Error.NoReply", nil)
	case o.odd == "two items":
		return []dbus.ObjectPath{oddItem, oddRing}, nil, nil
	case o.text == nil:
		return nil, nil, nil
	}
	return []dbus.ObjectPath{oddItem}, nil, nil
}

func (o *oddService) ReadAlias(string) (dbus.ObjectPath, *dbus.Error) {
	if o.odd == "no keyring" {
		return noObject, nil
	}
	return oddRing, nil
}

// Get is of the keyring's properties.
func (o *oddService) Get(string, string) (dbus.Variant, *dbus.Error) {
	if o.odd == "a lock that is a text" {
		return dbus.MakeVariant("no"), nil
	}
	return dbus.MakeVariant(false), nil
}

func (o *oddService) CreateItem(_ map[string]dbus.Variant, s secretOnBus, _ bool) (item, prompt dbus.ObjectPath, _ *dbus.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, err := exchange{key: o.key}.open(s)
	if err != nil {
		return "", "", dbus.MakeFailedError(err)
	}
	switch o.odd {
	case "another text":
		text[0] ^= 1
	case "a prompt that is dismissed", "a prompt that nobody answers":
		return noObject, oddPrompt, nil
	case "a prompt that needs nobody":
		o.text = text
		return noObject, oddPrompt, nil
	}
	o.text = text
	return oddItem, noObject, nil
}

func (o *oddService) GetSecret(path dbus.ObjectPath) (secretOnBus, *dbus.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out, err := exchange{key: o.key}.seal(o.text)
	if err != nil {
		return out, dbus.MakeFailedError(err)
	}
	switch o.odd {
	case "half a block":
		out.Value = out.Value[:len(out.Value)-1]
	case "nothing":
		out.Value = []byte{}
	case "too much":
		out.Value = bytes.Repeat([]byte{7}, 2*maxFile)
	case "no first block":
		out.Parameters = nil
	case "noise":
		out.Value = bytes.Repeat([]byte{7}, 32)
	}
	out.Session = path
	return out, nil
}

func (o *oddService) Delete() (dbus.ObjectPath, *dbus.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.odd != "an item that stays" {
		o.text = nil
	}
	return noObject, nil
}

func (o *oddService) Prompt(string) *dbus.Error {
	if o.odd != "a prompt that nobody answers" {
		_ = o.bus.Emit(oddPrompt, interfaces+"Prompt.Completed", o.odd == "a prompt that is dismissed", dbus.MakeVariant(noObject))
	}
	return nil
}

func (o *oddService) Dismiss() *dbus.Error {
	o.called <- "dismiss"
	return nil
}

// newOddService takes the place of a keyring.
func newOddService(t *testing.T, s *keepertest.Session, odd string) *oddService {
	t.Helper()
	o := &oddService{bus: s.Bus(), odd: odd, called: make(chan string, 4)}
	for path, names := range map[dbus.ObjectPath][]string{
		servicePath: {interfaces + "Service"}, oddItem: {interfaces + "Item"}, oddPrompt: {interfaces + "Prompt"},
		oddRing: {interfaces + "Collection", "org.freedesktop.DBus.Properties"},
	} {
		for _, name := range names {
			if err := o.bus.Export(o, path, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := o.bus.RequestName(serviceName, dbus.NameFlagDoNotQueue); err != nil || got != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("the name: %v, %v", got, err)
	}
	t.Cleanup(func() { _, _ = o.bus.ReleaseName(serviceName) })
	return o
}

// hasty is a keeper that does not wait long.
func hasty(dir string) Unsealed {
	return Unsealed{secretService{dir: dir, answer: 2 * time.Second, prompt: 100 * time.Millisecond}}
}

// A service that answers nonsense, asks what nobody answers, or keeps something else is refused when a key is saved: no
// secret is put under a key that would not come back.
func TestSecretServiceThatIsOdd(t *testing.T) {
	s := keepertest.NewSession(t, false)
	t.Setenv(sessionbus.Address, s.Address)
	for odd, words := range map[string]string{
		"no such exchange": "NotSupported", "a text for a number": "not one that its description allows",
		"a number that gives the key away": "not one that its description allows",
		"a number out of the group":        "not one that its description allows",
		"no keyring":                       "no default keyring", "a lock that is a text": "locked", "another text": "another text was read",
		"a prompt that is dismissed": "dismissed", "a prompt that nobody answers": "nobody answered", "silence": "NoReply",
		"two items": "several items", "half a block": "not one that its description allows", "nothing": "not one that its description allows",
		"too much": "not one that its description allows", "no first block": "not one that its description allows",
		"noise": "not one that its description allows", "a prompt that needs nobody": "", "": "", "an item that stays": "",
	} {
		t.Run(odd, func(t *testing.T) {
			o := newOddService(t, s, odd)
			err := hasty(t.TempDir()).Save(t.Context(), keyID, palyra.NewSecret(make([]byte, 32)), palyra.Secret{})
			if words == "" {
				if err != nil {
					t.Error(err)
				}
			} else {
				keepertest.Refused(t, err, palyra.Unavailable, palyra.ReasonVaultLocked)
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("%v; want %q", err, words)
				}
			}
			if odd == "a prompt that nobody answers" && <-o.called != "dismiss" {
				t.Error("the prompt is still there")
			}
			if odd != "an item that stays" {
				return
			}
			if err := hasty(t.TempDir()).Forget(t.Context(), keyID); err == nil || !strings.Contains(err.Error(), "has it still") {
				t.Errorf("forget: %v", err)
			}
		})
	}
}

// A service or a bus that never answers is given up in time.
func TestSecretServiceThatHangs(t *testing.T) {
	s := keepertest.NewSession(t, false)
	bus := s.Bus()
	if _, err := bus.RequestName(serviceName, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	calls := make(chan *dbus.Message, 100)
	bus.Eavesdrop(calls) // and so answers nothing
	silent := filepath.Join(t.TempDir(), "bus")
	listener, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for address, words := range map[string]string{
		s.Address: "the Secret Service does not answer", "unix:path=" + silent: "the session bus does not answer",
	} {
		t.Setenv(sessionbus.Address, address)
		k := Unsealed{secretService{dir: t.TempDir(), answer: 100 * time.Millisecond, prompt: time.Millisecond}}
		refuses(t, k, words)
	}
	if len(calls) == 0 {
		t.Error("nobody called")
	}
}

// A shared number that begins with a zero is as long as every other, or the two sides had different keys once in 256
// sessions. The key was worked out by another program, from the same numbers.
func TestAShortSharedNumber(t *testing.T) {
	number := func(exponent *big.Int) []byte { return new(big.Int).Exp(big.NewInt(2), exponent, group).Bytes() }
	theirs, _ := new(big.Int).SetString("1234567890abcdef1234567890abcdef", 16)
	own := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 200), big.NewInt(132))
	if shared := new(big.Int).Exp(new(big.Int).SetBytes(number(theirs)), own, group); shared.BitLen() > group.BitLen()-8 {
		t.Fatal("the number is not short")
	}
	for _, side := range []struct{ own, other *big.Int }{{own, theirs}, {theirs, own}} {
		if key, err := shareKey(side.own, number(side.other)); err != nil || hex.EncodeToString(key) != "62d571b69330f752170290debfddc1c5" {
			t.Errorf("%x, %v", key, err)
		}
	}
}
