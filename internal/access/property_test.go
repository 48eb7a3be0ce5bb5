package access

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"palyra"
)

// world is a registry to which anything is done by anybody, in any order, and
// what must be remembered to tell whether that went right.
type world struct {
	*bench
	r       *rapid.T
	keys    []person        // every key ever, also those that were refused or ended
	secrets []palyra.Secret // every token ever
	whose   map[int]string  // by index of secrets: whose it is
	gone    map[string]bool // people who were removed
	devices map[string]bool // names that devices had
	ids     []string        // of devices and tokens
}

var (
	names  = []string{"alice", "bob", "carl", "dora"}
	places = [][]string{nil, {"/w"}, {"/v", "/w"}}
)

func (w *world) name() string      { return rapid.SampledFrom(names).Draw(w.r, "name") }
func (w *world) role() palyra.Role { return rapid.SampledFrom(ladder).Draw(w.r, "role") }
func (w *world) place() []string   { return rapid.SampledFrom(places).Draw(w.r, "place") }
func (w *world) signer() person    { return rapid.SampledFrom(w.keys).Draw(w.r, "signer") }

// owners lists everything that is an owner's: people, keys and devices.
func (w *world) owners() (out []string) {
	users, err := w.Users(w.t.Context())
	w.must(err)
	keys, err := w.Operators(w.t.Context())
	w.must(err)
	devices, err := w.Devices(w.t.Context())
	w.must(err)
	for _, u := range users {
		if u.Role == palyra.RoleOwner && u.RemovedAt.IsZero() {
			out = append(out, string(u.Principal))
		}
	}
	for _, k := range keys {
		if k.Role == palyra.RoleOwner && k.RemovedAt.IsZero() {
			out = append(out, k.KeyID)
		}
	}
	for _, d := range devices {
		if d.Role == palyra.RoleOwner && d.Live() {
			out = append(out, d.ID)
		}
	}
	return out
}

// step does one thing and returns who it was by.
func (w *world) step() person {
	by, ctx := w.signer(), w.t.Context()
	name := w.name()
	switch rapid.IntRange(0, 7).Draw(w.r, "what") {
	case 0:
		if _, err := w.addUser(by, name, w.role(), w.place()...); err == nil {
			w.fresh(name)
		}
	case 1:
		_ = w.changeUser(by, name, w.role(), w.place()...)
	case 2:
		if err := w.RemoveUser(ctx, palyra.Principal("user:"+name), w.sign(by, nil)); err == nil {
			w.gone[name] = true
		}
	case 3:
		p := newPerson(name, w.role())
		if _, err := w.AddOperator(ctx, p.Operator, w.sign(by, nil)); err == nil {
			w.fresh(name)
		}
		w.keys = append(w.keys, p)
	case 4:
		_ = w.RemoveOperator(ctx, rapid.SampledFrom(w.keys).Draw(w.r, "key").KeyID, w.sign(by, nil))
	case 5:
		w.pairAny(by, name)
	case 6:
		w.tokenAny(by, name)
	case 7:
		id := rapid.SampledFrom(append([]string{"none"}, w.ids...)).Draw(w.r, "id")
		_ = w.RevokeToken(ctx, id, w.sign(by, nil))
		_, _ = w.RevokeDevice(ctx, id, w.sign(by, nil))
	}
	return by
}

// fresh checks that a name that was given is nobody's who is gone.
func (w *world) fresh(name string) {
	if w.gone[name] {
		w.r.Fatalf("the name %s was given twice", name)
	}
}

func (w *world) pairAny(by person, name string) {
	device := rapid.SampledFrom([]string{"phone", "desk"}).Draw(w.r, "device")
	p, role, err := w.MayPair(w.t.Context(), palyra.Principal("user:"+name), w.role(), w.sign(by, nil))
	if err != nil {
		return
	}
	c, key := w.candidate(device, p.Name(), role)
	c.PairedBy = by.Principal
	w.keys = append(w.keys, key)
	d, err := w.AddDevice(w.t.Context(), c, "P")
	if err != nil {
		return
	}
	if w.devices[device] {
		w.r.Fatalf("the device name %s was given twice", device)
	}
	w.devices[device] = true
	w.ids = append(w.ids, d.ID)
}

func (w *world) tokenAny(by person, name string) {
	scopes := rapid.SliceOfN(rapid.SampledFrom(everyPermission()), 1, 4).Draw(w.r, "scopes")
	tok, secret, err := w.AddToken(w.t.Context(), palyra.Token{
		Name: "t", Principal: palyra.Principal("user:" + name), Scopes: scopes, Workspaces: w.place(),
	}, time.Hour, w.sign(by, nil))
	if err != nil {
		return
	}
	w.whose[len(w.secrets)] = name
	w.secrets = append(w.secrets, secret)
	w.ids = append(w.ids, tok.ID)
	u, err := w.User(w.t.Context(), tok.Principal)
	w.must(err)
	for _, s := range tok.Scopes {
		if !w.Permits(u.Role, s, false) || !slices.Contains(scopes, s) {
			w.r.Fatalf("a token of a %s holds %s", u.Role, s)
		}
	}
	if !containsReach(tok.Workspaces, u.Workspaces) && len(tok.Workspaces) > 0 {
		w.r.Fatalf("a token of %v reaches %v", u.Workspaces, tok.Workspaces)
	}
}

// after checks what must hold whatever happened.
func (w *world) after() {
	for _, k := range w.keys {
		if err := w.check(w.sign(k, nil)); err == nil && w.gone[k.Principal.Name()] {
			w.r.Fatalf("a key of %s works, who was removed", k.Principal)
		}
	}
	for i, s := range w.secrets {
		b, err := w.Bearer(w.t.Context(), s)
		switch {
		case err != nil:
		case w.gone[w.whose[i]]:
			w.r.Fatalf("a token of %s works, who was removed", w.whose[i])
		case b.Principal != palyra.Principal("user:"+w.whose[i]) || len(b.Scopes) == 0:
			w.r.Fatalf("a token of %s is %+v", w.whose[i], b)
		}
	}
	if _, err := w.LocalAgent(w.t.Context()); err != nil {
		w.r.Fatalf("no owner is left: %v", err)
	}
	if err := w.Verify(w.t.Context(), w.each); err != nil {
		w.r.Fatalf("the tables and the journal part ways: %v", err)
	}
}

// Whatever anybody does in whatever order: nobody but an owner makes one, an
// owner remains, no name is given twice, no credential of somebody removed works,
// no token holds more than its person, and the journal explains every row.
func TestAnythingInAnyOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBench(t)
		defer func() { _ = b.DB.Close() }()
		w := &world{
			bench: b, r: r, keys: []person{b.owner, newPerson("mallory", palyra.RoleOwner)}, whose: map[int]string{}, gone: map[string]bool{},
			devices: map[string]bool{},
		}
		owners := w.owners()
		for range rapid.IntRange(5, 20).Draw(r, "steps") {
			by := w.step()
			now := w.owners()
			for _, o := range now {
				if !slices.Contains(owners, o) && (by.Role != palyra.RoleOwner || !slices.Contains(owners, string(by.Principal))) {
					r.Fatalf("%s (%s) made %s an owner's", by.Principal, by.Role, o)
				}
			}
			owners = now
		}
		w.after()
	})
}
