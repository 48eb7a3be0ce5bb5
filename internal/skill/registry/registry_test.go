package registry

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/catalog"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// book is a journal that only remembers.
type book struct{ lines []palyra.Event }

func (b *book) Append(_ *store.Tx, e palyra.Event) (palyra.Position, error) {
	b.lines = append(b.lines, e)
	return palyra.Position{}, nil
}

// rule lets everybody do everything but one.
type rule struct{ denied palyra.Principal }

func (r *rule) AuthorizeAction(_ context.Context, p palyra.Principal, _ []palyra.Role, action, kind, _ string) (bool, []palyra.PolicyHit) {
	return p != r.denied && action == "skill.install" && kind == "Skill", nil
}

// world is a registry over a real store and a real catalog.
type world struct {
	*Registry
	t     *testing.T
	db    *store.DB
	cat   *catalog.Catalog
	lines *book
	rule  *rule
	by    skill.By
}

func newWorld(t *testing.T) *world {
	t.Helper()
	engine, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := &world{t: t, db: db, lines: &book{}, rule: &rule{}, by: skill.By{Principal: "user:ann", Role: palyra.RoleOwner}}
	w.again()
	return w
}

// again starts anew on the same store.
func (w *world) again() {
	w.t.Helper()
	var err error
	if w.cat, err = catalog.New(catalog.Config{MaxCalls: 1}); err != nil {
		w.t.Fatal(err)
	}
	w.Registry, err = New(w.t.Context(), Config{
		DB: w.db, Journal: w.lines, Catalog: w.cat, Policy: w.rule, Runtime: &runtime{}, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func key(n byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, 32)) }

func pub(n byte) string { return archive.PublicText(key(n).Public().(ed25519.PublicKey)) }

func keyID(n byte) string { return archive.KeyID(key(n).Public().(ed25519.PublicKey)) }

// pack is a signed package; the changes are pairs of what is replaced in its manifest.
func pack(t testing.TB, signer byte, changes ...string) []byte {
	t.Helper()
	text := `format = "palyra-manifest/1"
id = "demo"
version = "1.0.0"
publisher = "acme"
description = "A demo."
[[tools]]
name = "greet"
description = "Greets."
module = "demo.wasm"
read_only = true
input_schema = '{"type":"object"}'
[capabilities]
hosts = ["a.example:443"]
storage = ["cache/"]
`
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("no %q", changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	raw, err := archive.Pack(map[string][]byte{skill.ManifestName: []byte(text), "demo.wasm": []byte("\x00asm\x01\x00\x00\x00")})
	if err != nil {
		t.Fatal(err)
	}
	p, err := archive.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = archive.Sign(p, key(signer)); err != nil {
		t.Fatal(err)
	}
	return raw
}

func (w *world) trust(name string, n byte) {
	w.t.Helper()
	if _, err := w.Trust(w.t.Context(), name, pub(n), w.by); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) install(raw []byte) skill.Skill {
	w.t.Helper()
	s, err := w.Install(w.t.Context(), skill.Addition{Package: raw, By: w.by})
	if err != nil {
		w.t.Fatal(err, palyra.AsError(err).Cause)
	}
	return s
}

// refused installs what must not be, and checks that nothing is different then.
func (w *world) refused(want palyra.Reason, raw []byte) {
	w.t.Helper()
	before, _ := w.List(w.t.Context())
	lines := len(w.lines.lines)
	_, err := w.Install(w.t.Context(), skill.Addition{Package: raw, By: w.by})
	if e := palyra.AsError(err); err == nil || e.Reason != want || e.Remedy == "" {
		w.t.Errorf("want %s: %v", want, err)
	}
	after, _ := w.List(w.t.Context())
	if len(w.lines.lines) != lines || len(after) != len(before) || len(after) > 0 && after[0].Digest != before[0].Digest {
		w.t.Errorf("%s: something was installed", want)
	}
}

func (w *world) enable(s skill.Skill) skill.Skill {
	w.t.Helper()
	s, err := w.Enable(w.t.Context(), skill.Enabling{ID: s.ID, Digest: s.Digest, Granted: s.Capabilities, By: w.by})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// offered are the tools in the catalog.
func (w *world) offered() (names []string) {
	for _, t := range w.cat.List() {
		names = append(names, string(t.Name))
	}
	return names
}

func (w *world) last() palyra.SkillChanged {
	w.t.Helper()
	e, ok := w.lines.lines[len(w.lines.lines)-1].(palyra.SkillChanged)
	if !ok {
		w.t.Fatalf("%T", w.lines.lines[len(w.lines.lines)-1])
	}
	return e
}

// From a signed file to a tool that is offered, over a restart, and back to nothing.
func TestLife(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	s := w.install(pack(t, 1))
	if s.State != skill.Quarantined || len(w.offered()) != 0 || w.last().Change != "installed" {
		t.Fatalf("%+v %v", s, w.offered())
	}
	if _, _, err := w.lookup("skill.demo.greet"); palyra.AsError(err).Reason != skill.ReasonState {
		t.Error(err)
	}
	s = w.enable(s)
	if got := w.last(); s.State != skill.Active || !slices.Equal(got.Granted, []string{"hosts:a.example:443", "storage:cache/"}) ||
		got.State != "active" {
		t.Errorf("%+v %+v", s, got)
	}
	w.again()
	tool, ok := w.Tool("skill.demo.greet")
	if !ok || !slices.Equal(w.offered(), []string{"skill.demo.greet"}) || tool.Tier != palyra.TierA || tool.Source != palyra.SourceSkill ||
		!slices.Equal(tool.Capabilities, []palyra.Capability{palyra.Network}) || tool.ReadOnly {
		t.Errorf("%+v %v", tool, w.offered())
	}
	if s, err := w.Quarantine(t.Context(), "demo", w.by); err != nil || s.State != skill.Quarantined || len(w.offered()) != 0 {
		t.Error(s, err)
	}
	w.enable(s)
	if err := w.Remove(t.Context(), "demo", false, w.by); err != nil || len(w.offered()) != 0 {
		t.Error(err)
	}
	if all, _ := w.List(t.Context()); len(all) != 0 {
		t.Error(all)
	}
	if _, err := w.Find("demo"); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	w.trust("evil", 2)
	w.refused(skill.ReasonPublisher, pack(t, 2, `"acme"`, `"evil"`)) // whose the id is outlives the skill
	w.again()
	w.refused(skill.ReasonPublisher, pack(t, 2, `"acme"`, `"evil"`))
	w.install(pack(t, 1, "1.0.0", "0.9.0"))
	if err := w.Remove(t.Context(), "demo", true, w.by); err != nil {
		t.Error(err)
	}
	w.install(pack(t, 2, `"acme"`, `"evil"`))
}

func TestInstallRefuses(t *testing.T) {
	w := newWorld(t)
	good := pack(t, 1)
	w.refused(skill.ReasonUntrusted, good)
	w.trust("acme", 1)
	w.trust("other", 2)
	w.refused(skill.ReasonPublisher, pack(t, 2)) // another's key, under acme's name
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	w.refused(skill.ReasonArchive, flipped)
	w.refused(skill.ReasonManifest, pack(t, 1, `{"type":"object"}`, `{"type":"object","$ref":"http://example.com/x"}`))
	w.rule.denied = "user:ann"
	w.refused(palyra.ReasonPolicyDenied, good)
	w.rule.denied = ""
	s := w.enable(w.install(good))
	w.refused(palyra.ReasonExists, good)
	w.refused(skill.ReasonDowngrade, pack(t, 1, "1.0.0", "0.9.9"))
	w.refused(skill.ReasonDowngrade, pack(t, 1, "A demo.", "Another demo."))
	w.refused(skill.ReasonWidened, pack(t, 1, "1.0.0", "1.1.0", `"a.example:443"`, `"a.example:443", "b.example:443"`))
	w.refused(skill.ReasonPublisher, pack(t, 2, "1.0.0", "1.1.0", `"acme"`, `"other"`))
	if again, err := w.Find("demo"); err != nil || again.Digest != s.Digest || again.State != skill.Active {
		t.Errorf("%+v %v", again, err)
	}
}

// An update that asks for no more stays active, with what was granted of it; one that asks for more waits, with what it had.
func TestUpdate(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	w.enable(w.install(pack(t, 1)))
	s := w.install(pack(t, 1, "1.0.0", "1.1.0", `storage = ["cache/"]`, ""))
	if s.State != skill.Active || !slices.Equal(s.Granted.Hosts, []string{"a.example:443"}) || s.Granted.Storage != nil {
		t.Errorf("%+v", s)
	}
	wider := pack(t, 1, "1.0.0", "1.2.0", `"a.example:443"`, `"a.example:443", "b.example:443"`)
	s, err := w.Install(t.Context(), skill.Addition{Package: wider, Widen: true, By: w.by})
	if err != nil || s.State != skill.Quarantined || !slices.Equal(s.Granted.Hosts, []string{"a.example:443"}) || len(w.offered()) != 0 {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := w.Enable(t.Context(), skill.Enabling{ID: "demo", Digest: palyra.SumBytes(nil), By: w.by}); palyra.AsError(err).Reason !=
		palyra.ReasonStaleDigest {
		t.Error(err)
	}
	more := s.Capabilities.Add("tools", "palyra.fs.read")
	if _, err := w.Enable(t.Context(), skill.Enabling{ID: "demo", Digest: s.Digest, Granted: more, By: w.by}); palyra.AsError(err).Reason !=
		skill.ReasonDenied {
		t.Error("more than it asks for:", err)
	}
	if s = w.enable(s); len(s.Granted.Hosts) != 2 {
		t.Errorf("%+v", s)
	}
}

// A key that is not trusted any more takes its skills with it at once, and does not come back.
func TestRevocation(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	s := w.enable(w.install(pack(t, 1)))
	if _, err := w.Revoke(t.Context(), keyID(1), w.by); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.Find("demo"); got.State != skill.Revoked || len(w.offered()) != 0 || w.last().State != "revoked" {
		t.Errorf("%+v", got)
	}
	for range 2 {
		if _, err := w.Enable(t.Context(), skill.Enabling{
			ID: "demo", Digest: s.Digest,
			By: w.by,
		}); palyra.AsError(err).Reason != skill.ReasonUntrusted {
			t.Error(err)
		}
		w.refused(skill.ReasonUntrusted, pack(t, 1, "1.0.0", "2.0.0"))
		if _, err := w.Trust(t.Context(), "acme", pub(1), w.by); palyra.AsError(err).Reason != skill.ReasonUntrusted {
			t.Error(err)
		}
		w.again()
	}
	w.trust("acme", 3) // the publisher has a new key, and goes on
	if s = w.install(pack(t, 3, "1.0.0", "2.0.0")); s.State != skill.Quarantined || s.KeyID != keyID(3) {
		t.Errorf("%+v", s)
	}
}

func TestTrustRefuses(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	for _, c := range []struct {
		name, key string
		want      palyra.Reason
	}{
		{"acme", pub(1), palyra.ReasonExists},
		{"other", pub(1), palyra.ReasonExists},
		{"Acme", pub(2), palyra.ReasonMalformedInput},
		{"acme", "x", palyra.ReasonMalformedInput},
	} {
		if _, err := w.Trust(t.Context(), c.name, c.key, w.by); palyra.AsError(err).Reason != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := w.Revoke(t.Context(), "pub-0", w.by); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	w.rule.denied = "user:ann"
	if _, err := w.Trust(t.Context(), "more", pub(2), w.by); palyra.AsError(err).Reason != palyra.ReasonPolicyDenied {
		t.Error(err)
	}
	if _, err := w.Revoke(t.Context(), keyID(1), w.by); palyra.AsError(err).Reason != palyra.ReasonPolicyDenied {
		t.Error(err)
	}
	if all, err := w.Publishers(t.Context()); err != nil || len(all) != 1 || all[0].Name != "acme" {
		t.Error(all, err)
	}
}

// What somebody changed beside the daemon is in quarantine after a start, and cannot be enabled.
func TestDamagedPackage(t *testing.T) {
	for name, sql := range map[string]string{
		"gone":     `DELETE FROM skill_packages`,
		"changed":  `UPDATE skill_packages SET data = x'504b0506'`,
		"relabel":  `UPDATE skills SET version = '9.0.0'`,
		"unsigned": `UPDATE skill_publishers SET public_key = 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='`,
	} {
		w := newWorld(t)
		w.trust("acme", 1)
		s := w.enable(w.install(pack(t, 1)))
		err := w.db.Write(t.Context(), "test", func(tx *store.Tx) error { _, err := tx.Exec(sql); return err })
		if err != nil {
			t.Fatal(err)
		}
		w.again()
		got, err := w.Find("demo")
		if err != nil || got.State != skill.Quarantined || got.Why == "" || len(w.offered()) != 0 {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		if _, err := w.Enable(t.Context(), skill.Enabling{ID: "demo", Digest: s.Digest, By: w.by}); err == nil {
			t.Errorf("%s: enabled", name)
		}
	}
}

func TestShrink(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	s := w.enable(w.install(pack(t, 1)))
	if _, err := w.Shrink(t.Context(), "demo", true, w.by); palyra.AsError(err).Reason != skill.ReasonNoRuns {
		t.Error(err)
	}
	for range 2 {
		if err := w.Used(t.Context(), s.Digest, skill.Capabilities{Storage: []string{"cache/"}, Hosts: []string{"never.granted:1"}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := w.Shrink(t.Context(), "demo", false, w.by)
	if err != nil || got.Runs != 2 || got.Applied || got.Needed.Hosts != nil || !slices.Equal(got.Needed.Storage, []string{"cache/"}) {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = w.Shrink(t.Context(), "demo", true, w.by); err != nil || !got.Applied || w.last().Change != "shrunk" {
		t.Errorf("%+v %v", got, err)
	}
	if s, _ := w.Find("demo"); s.Granted.Hosts != nil || s.State != skill.Active {
		t.Errorf("%+v", s)
	}
}
