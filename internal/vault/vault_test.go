package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/internal/agefile"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/ulid"
	"palyra/internal/vault/keeper"
	"palyra/secrets"
)

// Guesses at passphrases cost nothing here: package agefile holds what they cost.
func TestMain(m *testing.M) {
	agefile.Cheapen()
	m.Run()
}

// lines is a journal that keeps events in a table, as the real one keeps lines.
type lines struct{ db *store.DB }

func (l *lines) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	body, err := json.Marshal(e)
	if err == nil {
		_, err = tx.Exec(`INSERT INTO lines (body) VALUES (?)`, body)
	}
	return palyra.Position{}, err
}

func (l *lines) Bodies(ctx context.Context, _ string, f func([]byte) error) error {
	return l.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(`SELECT body FROM lines ORDER BY rowid`, nil, func(scan func(...any) error) error {
			var body []byte
			if err := scan(&body); err != nil {
				return err
			}
			return f(body)
		})
	})
}

// owners may do everything, and admins keep secrets that they may not see. Nobody may do what is in it: "vault.get name".
type owners map[string]bool

func (o owners) AuthorizeAction(_ context.Context, _ palyra.Principal, roles []palyra.Role, action, _, name string,
) (bool, []palyra.PolicyHit) {
	permitted := roles[0] == palyra.RoleOwner || roles[0] == palyra.RoleAdmin && action != "vault.get"
	name, _, _ = strings.Cut(name, "\n")
	return permitted && !o[action+" "+name], nil
}

var ada = secrets.By{Principal: "user:ada", Role: palyra.RoleOwner}

// house is a vault on a state of its own.
type house struct {
	testing.TB
	dir string
	db  *store.DB
	now time.Time
	*Vault
}

// otherFiles is a keeper beside the one that a vault begins with.
const otherFiles = "other"

const passphrase = "correct horse battery"

func newHouse(t testing.TB, dir string) *house {
	t.Helper()
	h := &house{TB: t, dir: dir, now: time.Now()}
	h.ok(os.MkdirAll(filepath.Join(dir, otherFiles), 0o700))
	engine, err := sqlite.Open(filepath.Join(dir, "state.db"))
	h.ok(err)
	h.db, err = store.Open(t.Context(), engine, Schema())
	h.ok(err)
	t.Cleanup(func() { _ = h.db.Close() })
	h.ok(h.db.Write(t.Context(), "test", func(tx *store.Tx) error {
		_, err := tx.Exec(`CREATE TABLE IF NOT EXISTS lines (body BLOB)`)
		return err
	}))
	h.again()
	return h
}

func (h *house) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// again is the vault of a daemon that was started anew.
func (h *house) again() {
	h.Helper()
	l := &lines{h.db}
	v, err := New(Config{
		DB: h.db, Journal: l, Policy: owners{}, First: keeper.KeyFile,
		Keepers: map[string]KeyKeeper{
			keeper.KeyFile: keeper.NewFiles(h.dir), keeper.Passphrase: keeper.NewPassphrase(h.dir),
			otherFiles: keeper.NewFiles(filepath.Join(h.dir, "other")),
		},
		Hosts: func(h []string) ([]string, error) { return h, nil },
		Inspect: func(_ context.Context, b secrets.Binding, value palyra.Secret) (secrets.Binding, error) {
			if b.Key = "held elsewhere"; !value.Empty() {
				b.Key = "held here"
			}
			return b, nil
		},
		NewID: func() palyra.ID { return palyra.ID(ulid.New(time.Now())) }, Now: func() time.Time { return h.now },
		Log: slog.New(slog.NewTextHandler(h.Output(), nil)),
	})
	h.ok(err)
	h.Vault = v
}

func text(s string) palyra.Secret { return palyra.NewSecret([]byte(s)) }

func (h *house) put(name, value string) secrets.Info {
	h.Helper()
	info, err := h.Put(h.Context(), secrets.Value{Scope: secrets.Global, Name: name, Value: text(value)}, ada)
	h.ok(err)
	return info
}

func (h *house) get(name string) (string, error) {
	value, _, err := h.Get(h.Context(), secrets.Global, name, 0)
	out := ""
	_ = value.Use(func(b []byte) error { out = string(b); return nil })
	return out, err
}

func (h *house) want(name, value string) {
	h.Helper()
	if got, err := h.get(name); err != nil || got != value {
		h.Errorf("%s: %q, %v", name, got, err)
	}
}

// exec changes the tables behind the vault's back.
func (h *house) exec(query string, args ...any) {
	h.Helper()
	h.ok(h.db.Write(h.Context(), "test", func(tx *store.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	}))
}

func TestPutGetDelete(t *testing.T) {
	h := newHouse(t, t.TempDir())
	if _, err := h.get("token"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("before the first: %v", err)
	}
	for i := range MaxVersions + 3 {
		if info := h.put("token", fmt.Sprintf("a value of version %d", i+1)); info.Version != int64(i+1) {
			t.Errorf("version %d, want %d", info.Version, i+1)
		}
	}
	h.want("token", fmt.Sprintf("a value of version %d", MaxVersions+3))
	h.again()
	h.want("token", fmt.Sprintf("a value of version %d", MaxVersions+3))
	if list, err := h.List(t.Context()); err != nil || len(list) != MaxVersions || list[0].Version != 4 {
		t.Errorf("%d versions, %v", len(list), err)
	}
	if v, _, err := h.Get(t.Context(), secrets.Global, "token", 5); err != nil || v.Empty() {
		t.Errorf("an earlier one: %v", err)
	}
	if _, _, err := h.Get(t.Context(), "principal:user:ada", "token", 0); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("another scope: %v", err)
	}
	h.ok(h.Delete(t.Context(), secrets.Global, "token", 0, ada))
	if _, err := h.get("token"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("after its end: %v", err)
	}
	if err := h.Delete(t.Context(), secrets.Global, "token", 0, ada); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("a second time: %v", err)
	}
}

func TestWhatIsNoSecret(t *testing.T) {
	h := newHouse(t, t.TempDir())
	for what, in := range map[string]secrets.Value{
		"no name":      {Scope: secrets.Global, Value: text("long enough to keep")},
		"a bad name":   {Scope: secrets.Global, Name: "a b", Value: text("long enough to keep")},
		"no scope":     {Name: "a", Value: text("long enough to keep")},
		"a bad scope":  {Scope: "principal:", Name: "a", Value: text("long enough to keep")},
		"another kind": {Scope: "moon:x", Name: "a", Value: text("long enough to keep")},
		"empty":        {Scope: secrets.Global, Name: "a"},
		"short":        {Scope: secrets.Global, Name: "a", Value: text("elevenbytes")},
		"long":         {Scope: secrets.Global, Name: "a", Value: text(strings.Repeat("x", MaxValue+1))},
		"over":         {Scope: secrets.Global, Name: "a", Value: text("long enough to keep"), Expires: h.now},
	} {
		if _, err := h.Put(t.Context(), in, ada); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n, err := h.counter(t.Context()); n != 0 || err != nil {
		t.Errorf("%d changes, %v", n, err)
	}
	pin := secrets.Value{Scope: secrets.Global, Name: "pin", Value: text("1234"), Unmasked: true, Expires: h.now.Add(time.Hour)}
	_, err := h.Put(t.Context(), pin, ada)
	h.ok(err)
	h.want("pin", "1234")
	h.now = h.now.Add(2 * time.Hour)
	if _, err := h.get("pin"); palyra.CodeOf(err) != palyra.Expired {
		t.Errorf("after its time: %v", err)
	}
}

// An earlier state of the vault is noticed, also one that was whole: the journal has gone on.
func TestAnEarlierVaultIsNoticed(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.put("one", "the value of the first")
	h.exec(`CREATE TABLE old_secrets AS SELECT * FROM vault_secrets`)
	h.exec(`CREATE TABLE old_manifest AS SELECT * FROM vault_manifest`)
	h.put("one", "the value that came after")
	h.exec(`DELETE FROM vault_secrets`)
	h.exec(`DELETE FROM vault_manifest`)
	h.again()
	if s, err := h.Status(t.Context()); err != nil || s.State != secrets.Damaged || s.Remedy == "" {
		t.Errorf("emptied: %+v, %v", s, err)
	}
	if _, err := h.Put(t.Context(), secrets.Value{Scope: secrets.Global, Name: "x", Value: text("long enough to keep")}, ada); err == nil {
		t.Error("a vault that was emptied begins anew")
	}
	h.exec(`INSERT INTO vault_secrets SELECT * FROM old_secrets`)
	h.exec(`INSERT INTO vault_manifest SELECT * FROM old_manifest`)
	h.again()
	if got, err := h.get("one"); palyra.AsError(err).Reason != palyra.ReasonVaultDamaged {
		t.Errorf("put back: %q, %v", got, err)
	}
}

func TestRotateAndChangeTheKeeper(t *testing.T) {
	h := newHouse(t, t.TempDir())
	for i := range 20 {
		h.put(fmt.Sprintf("s%d", i), fmt.Sprintf("the value of number %d", i))
	}
	all := func() {
		t.Helper()
		for i := range 20 {
			h.want(fmt.Sprintf("s%d", i), fmt.Sprintf("the value of number %d", i))
		}
	}
	files := func(pattern string) int {
		found, err := filepath.Glob(filepath.Join(h.dir, pattern))
		h.ok(err)
		return len(found)
	}
	h.ok(h.Rotate(t.Context(), "", palyra.Secret{}, ada))
	all()
	h.again()
	all()
	if files("vault-*.key") != 1 {
		t.Errorf("%d keys are left", files("vault-*.key"))
	}
	if err := h.Rotate(t.Context(), keeper.Passphrase, palyra.Secret{}, ada); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("without a passphrase: %v", err)
	}
	if err := h.Rotate(t.Context(), "moon", palyra.Secret{}, ada); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("an unknown keeper: %v", err)
	}
	all()
	h.ok(h.Rotate(t.Context(), keeper.Passphrase, text(passphrase), ada))
	all()
	h.again()
	if s, err := h.Status(t.Context()); err != nil || s.State != secrets.Locked || !strings.Contains(s.Remedy, "unlock") || s.Versions != 20 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := h.get("s1"); palyra.AsError(err).Reason != palyra.ReasonVaultLocked {
		t.Errorf("locked: %v", err)
	}
	if list, err := h.List(t.Context()); err != nil || len(list) != 20 {
		t.Errorf("locked, %d are listed, %v", len(list), err)
	}
	if err := h.Unlock(t.Context(), text("wrong horse battery")); palyra.AsError(err).Reason != palyra.ReasonBadCredential {
		t.Errorf("a wrong passphrase: %v", err)
	}
	h.ok(h.Unlock(t.Context(), text(passphrase)))
	all()
	h.Lock()
	if _, err := h.get("s1"); err == nil {
		t.Error("locked again, and it opens")
	}
	h.ok(h.Unlock(t.Context(), text(passphrase)))
	h.ok(h.Rotate(t.Context(), keeper.KeyFile, palyra.Secret{}, ada))
	h.again()
	all()
	if files("vault-*") != 1 {
		t.Errorf("%d keys are left", files("vault-*"))
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	h := newHouse(t, t.TempDir())
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := range 10 {
				in := secrets.Value{Scope: secrets.Global, Name: fmt.Sprintf("w%d", w), Value: text(fmt.Sprintf("value %d of writer %d", i, w))}
				if _, err := h.Put(h.Context(), in, ada); err != nil {
					t.Error(err)
				}
				if i == 5 && w%4 == 0 {
					if err := h.Rotate(h.Context(), "", palyra.Secret{}, ada); err != nil {
						t.Error(err)
					}
				}
				if _, err := h.get(fmt.Sprintf("w%d", w)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	h.again()
	for w := range 16 {
		h.want(fmt.Sprintf("w%d", w), fmt.Sprintf("value 9 of writer %d", w))
	}
	if list, err := h.List(t.Context()); err != nil || len(list) != 160 {
		t.Errorf("%d versions, %v", len(list), err)
	}
}

// Policy and scope decide about every access, and a reading is on record before the value is shown.
func TestWhoMay(t *testing.T) {
	h := newHouse(t, t.TempDir())
	viewer := secrets.By{Principal: "user:eve", Role: palyra.RoleAuditor}
	own := secrets.Value{Scope: "principal:user:ada", Name: "own", Value: text("only for ada, nobody else")}
	_, err := h.Put(t.Context(), own, ada)
	h.ok(err)
	other := secrets.By{Principal: "user:bob", Role: palyra.RoleOwner}
	for who, by := range map[string]secrets.By{"a role": viewer, "another person": other} {
		if v, _, err := h.Reveal(t.Context(), own.Scope, own.Name, 0, by); palyra.CodeOf(err) != palyra.Denied || !v.Empty() {
			t.Errorf("%s reads: %v", who, err)
		}
		if err := h.Delete(t.Context(), own.Scope, own.Name, 0, by); palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s deletes: %v", who, err)
		}
		if _, err := h.Put(t.Context(), own, by); palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s puts: %v", who, err)
		}
	}
	v, info, err := h.Reveal(t.Context(), own.Scope, own.Name, 0, ada)
	if err != nil || v.Empty() || info.Version != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	h.again()
	if _, _, err := h.Reveal(t.Context(), own.Scope, own.Name, 0, ada); err != nil { // the line does not count as a change
		t.Error(err)
	}
	h.exec(`DROP TABLE lines`)
	if v, _, err := h.Reveal(t.Context(), own.Scope, own.Name, 0, ada); err == nil || !v.Empty() {
		t.Error("it was shown and is not on record")
	}
}
