package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"palyra"
)

// The names of the Secret Service's interfaces, as the desktops agreed on them.
const (
	serviceName = "org.freedesktop.secrets"
	servicePath = dbus.ObjectPath("/org/freedesktop/secrets")
	interfaces  = "org.freedesktop.Secret."
	noObject    = dbus.ObjectPath("/")
)

// secretService is the Secret Service of the desktop that the daemon runs in: GNOME's keyring, KDE's wallet, KeePassXC.
// Nothing here opens a locked keyring: a call of an agent could have led here, and would put a prompt for a password in
// front of a person who did not ask for one.
type secretService struct {
	dir    string
	answer time.Duration // a call's deadline
	prompt time.Duration // that of a question which the service asks about a change
}

// NewSecretService keeps keys in the Secret Service, for the state whose keys' directory this is.
func NewSecretService(dir string) Unsealed {
	return Unsealed{secretService{dir: dir, answer: 10 * time.Second, prompt: 30 * time.Second}}
}

func (s secretService) name(id string) string {
	return "the item of key " + id + " in the Secret Service"
}

// attributes are what a key is found by. The directory tells states of one user apart: a copy of a state must not
// forget the key of the one that it was copied from. There is no xdg:schema among them: by that one GNOME's keyring
// finds nothing in a keyring that was not unlocked yet.
func (s secretService) attributes(id string) (map[string]string, error) {
	dir, err := fullPath(s.dir)
	if err != nil {
		return nil, err
	}
	return map[string]string{"application": "palyra", "key": id, "directory": string(palyra.TextOfPath(dir))}, nil
}

// load implements place.
func (s secretService) load(ctx context.Context, id string) (text []byte, err error) {
	err = s.talk(ctx, id, func(t *talk) (err error) {
		text, err = t.get()
		return err
	})
	return text, err
}

// save implements place.
func (s secretService) save(ctx context.Context, id string, text []byte) error {
	return s.talk(ctx, id, func(t *talk) error { return t.put(text) })
}

// forget implements place.
func (s secretService) forget(ctx context.Context, id string) error {
	return s.talk(ctx, id, (*talk).remove)
}

// talk is one exchange with the service, about one key.
type talk struct {
	secretService
	ctx        context.Context
	bus        *dbus.Conn
	session    exchange
	attributes map[string]string
}

// talk begins an exchange, and ends it whatever comes of it.
func (s secretService) talk(ctx context.Context, id string, f func(*talk) error) error {
	attributes, err := s.attributes(id)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, s.prompt+2*s.answer)
	defer cancel()
	t := &talk{secretService: s, ctx: within, attributes: attributes}
	reached := false
	if err = t.begin(); err == nil {
		reached = true
		err = f(t)
	}
	if t.bus != nil {
		_ = t.bus.Close() // which ends the session as well
	}
	clear(t.session.key)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("keeper: secret service: %w", ctx.Err())
	}
	if err = refusal(err); err != nil && !reached {
		return unreachedError{err}
	}
	return err
}

func (t *talk) begin() (err error) {
	if t.bus, err = dialBus(t.ctx, t.answer); err != nil {
		return err
	}
	own, public, err := newExchange()
	if err != nil {
		return err
	}
	var theirs dbus.Variant
	err = t.call(servicePath, "Service.OpenSession", []any{&theirs, &t.session.path}, sealedSession, dbus.MakeVariant(public))
	if err != nil {
		return err
	}
	told, _ := theirs.Value().([]byte)
	t.session.key, err = shareKey(own, told)
	return err
}

// call calls a method of the service, within the deadline.
func (t *talk) call(path dbus.ObjectPath, method string, out []any, args ...any) error {
	return t.callFull(path, interfaces+method, out, args...)
}

func (t *talk) callFull(path dbus.ObjectPath, method string, out []any, args ...any) error {
	ctx, cancel := context.WithTimeout(t.ctx, t.answer)
	defer cancel()
	return t.bus.Object(serviceName, path).CallWithContext(ctx, method, 0, args...).Store(out...)
}

// What stands between the daemon and a key, where the service itself answers.
var (
	errLocked       = errors.New("the keyring is locked")
	errAbsent       = errors.New("the key is not there")
	errElsewhere    = errors.New("the key is another directory's")
	errSeveral      = errors.New("there are several items of one key")
	errNoCollection = errors.New("there is no default keyring")
	errDismissed    = errors.New("the prompt was dismissed")
	errUnanswered   = errors.New("nobody answered the prompt")
	errStays        = errors.New("the item is still there")
)

// search returns the items that have all attributes.
func (t *talk) search(attributes map[string]string) (open, closed []dbus.ObjectPath, err error) {
	err = t.call(servicePath, "Service.SearchItems", []any{&open, &closed}, attributes)
	return open, closed, err
}

// items returns the key's items. A service that hides what is in a locked keyring is not taken for one that has none.
func (t *talk) items() ([]dbus.ObjectPath, error) {
	open, closed, err := t.search(t.attributes)
	switch {
	case err != nil:
		return nil, err
	case len(closed) > 0:
		return nil, errLocked
	case len(open) > 0:
		return open, nil
	}
	if _, err := t.collection(); !errors.Is(err, errNoCollection) {
		return nil, err
	}
	return nil, nil
}

// get returns the text of the key's item.
func (t *talk) get() ([]byte, error) {
	items, err := t.items()
	switch {
	case err != nil:
		return nil, err
	case len(items) > 1:
		return nil, errSeveral
	case len(items) == 0:
		anywhere := map[string]string{"application": t.attributes["application"], "key": t.attributes["key"]}
		open, closed, err := t.search(anywhere)
		switch {
		case err == nil && len(open) > 0:
			return nil, errElsewhere
		case err == nil && len(closed) > 0:
			return nil, errLocked
		}
		return nil, errors.Join(err, errAbsent)
	}
	var got secretOnBus
	if err := t.call(items[0], "Item.GetSecret", []any{&got}, t.session.path); err != nil {
		return nil, err
	}
	return t.session.open(got)
}

// collection returns the keyring that new items go to, where it is open.
func (t *talk) collection() (path dbus.ObjectPath, err error) {
	for _, alias := range []string{"default", "login"} {
		if err := t.call(servicePath, "Service.ReadAlias", []any{&path}, alias); err != nil {
			return "", err
		}
		if path == noObject || path == "" {
			continue
		}
		var closed dbus.Variant
		if err := t.callFull(path, "org.freedesktop.DBus.Properties.Get", []any{&closed}, interfaces+"Collection", "Locked"); err != nil {
			return "", err
		}
		if is, ok := closed.Value().(bool); !ok || is {
			return "", errLocked
		}
		return path, nil
	}
	return "", errNoCollection
}

// put makes the key's item.
func (t *talk) put(text []byte) error {
	collection, err := t.collection()
	if err != nil {
		return err
	}
	secret, err := t.session.seal(text)
	if err != nil {
		return err
	}
	properties := map[string]dbus.Variant{
		interfaces + "Item.Label":      dbus.MakeVariant("Palyra: key of the vault, " + t.attributes["directory"]),
		interfaces + "Item.Attributes": dbus.MakeVariant(t.attributes),
	}
	var item, prompt dbus.ObjectPath
	if err := t.call(collection, "Collection.CreateItem", []any{&item, &prompt}, properties, secret, true); err != nil {
		return err
	}
	return t.answered(prompt)
}

// remove removes the key's item.
func (t *talk) remove() error {
	items, err := t.items()
	if err != nil {
		return err
	}
	for _, item := range items {
		var prompt dbus.ObjectPath
		if err := t.call(item, "Item.Delete", []any{&prompt}); err != nil {
			return err
		}
		if err := t.answered(prompt); err != nil {
			return err
		}
	}
	if left, err := t.items(); err != nil || len(left) > 0 {
		return errors.Join(err, errStays)
	}
	return nil
}

// answered waits until somebody has answered what the service asks about a change, or until it has found that nobody
// has to: some services ask every time.
func (t *talk) answered(prompt dbus.ObjectPath) error {
	if prompt == noObject || prompt == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.prompt)
	defer cancel()
	signals := make(chan *dbus.Signal, 8)
	t.bus.Signal(signals)
	const completed = interfaces + "Prompt.Completed"
	if err := t.bus.AddMatchSignalContext(ctx, dbus.WithMatchObjectPath(prompt), dbus.WithMatchSender(serviceName)); err != nil {
		return err
	}
	if err := t.call(prompt, "Prompt.Prompt", nil, ""); err != nil {
		return err
	}
	for {
		select {
		case s, ok := <-signals:
			if !ok {
				return dbus.ErrClosed
			}
			if s.Path != prompt || s.Name != completed || len(s.Body) == 0 {
				continue
			}
			if dismissed, ok := s.Body[0].(bool); !ok || dismissed {
				return errDismissed
			}
			return nil
		case <-ctx.Done():
			_ = t.call(prompt, "Prompt.Dismiss", nil)
			return errUnanswered
		}
	}
}

const lookAtService = "see which program it is, and how it is: busctl --user status " + serviceName

// refusals say what stands in the way, and what to do.
var refusals = []struct {
	is           error
	text, remedy string
}{
	{errLocked, "the keyring is locked", "unlock it (log in to the desktop, or open it in its own application), then try again"},
	{
		errAbsent, "the keyring does not have the vault's key",
		"start the daemon in the session whose keyring has it; without one, begin anew from an export: palyra vault import",
	},
	{
		errElsewhere, "the keyring has the vault's key for a state in another directory: this one was moved or copied",
		"move it back, and there: palyra vault rotate --keeper key-file",
	},
	{errSeveral, "the keyring has several items of the vault's key", "remove all but Palyra's own in the keyring's application"},
	{
		errNoCollection, "the Secret Service has no default keyring",
		"make one in its own application, or log in to the desktop with a password",
	},
	{errDismissed, "the prompt of the keyring was dismissed; nothing was changed", "try again, and answer it"},
	{errUnanswered, "nobody answered the prompt of the keyring in time", "try again, and answer it"},
	{errStays, "the keyring says that it removed a key, and has it still", "remove it in the keyring's own application"},
	{errBadSession, "the Secret Service's answer is not one that its description allows", lookAtService},
	{os.ErrDeadlineExceeded, "the session bus does not answer", "start the daemon again in your desktop session: palyra down; palyra up"},
	{context.DeadlineExceeded, "the Secret Service does not answer", lookAtService},
}

// refusal turns what went wrong into what people are told. What the service wrote itself stays in the cause.
func refusal(err error) error {
	var told *palyra.Error
	if err == nil || errors.As(err, &told) {
		return err
	}
	for _, r := range refusals {
		if errors.Is(err, r.is) {
			return locked("%s", r.text).WithRemedy("%s", r.remedy).WithCause(err)
		}
	}
	var said dbus.Error
	if !errors.As(err, &said) {
		return locked("the Secret Service cannot be spoken to").
			WithRemedy("start it, and the daemon in its session: palyra down; palyra up").WithCause(err)
	}
	const bus = "org.freedesktop.DBus.Error."
	switch name := said.Name; {
	case name == interfaces+"Error.IsLocked":
		return refusal(errLocked)
	case name == bus+"ServiceUnknown" || name == bus+"NameHasNoOwner" || strings.HasPrefix(name, bus+"Spawn."):
		return locked("no Secret Service runs in the daemon's session").
			WithRemedy("start one there (gnome-keyring, KWallet, KeePassXC); where there is no desktop, use the keeper key-file or passphrase").
			WithCause(err)
	}
	return locked("the Secret Service refused: %s", palyra.Clip(said.Name, 100)).
		WithRemedy(lookAtService).WithCause(err)
}
