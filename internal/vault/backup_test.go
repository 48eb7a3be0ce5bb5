package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/agefile"
	"palyra/internal/store"
	"palyra/internal/vault/keeper"
	"palyra/secrets"
)

const recovery = "the words of the recovery"

// export exports the vault.
func (h *house) export(everyone bool) []byte {
	h.Helper()
	var out bytes.Buffer
	n, err := h.Export(h.Context(), &out, text(recovery), everyone, ada)
	h.ok(err)
	if n == 0 || bytes.Contains(out.Bytes(), []byte("value")) {
		h.Errorf("%d versions in an export of %q", n, out.Bytes())
	}
	return out.Bytes()
}

// take imports an export.
func (h *house) take(file []byte, mode secrets.ImportMode, by secrets.By) (secrets.Imported, error) {
	return h.Import(h.Context(), bytes.NewReader(file), int64(len(file)), text(recovery), mode, by)
}

// everything is every version with its value; while the vault is not open, without.
func (h *house) everything() map[string]string {
	h.Helper()
	list, err := h.List(h.Context())
	h.ok(err)
	all := map[string]string{}
	for _, i := range list {
		about, err := json.Marshal(i)
		h.ok(err)
		value, _, err := h.Get(h.Context(), i.Scope, i.Name, i.Version)
		_ = value.Use(func(b []byte) error { all[string(about)] = fmt.Sprintf("%s %v", b, err); return nil })
	}
	return all
}

// recorded are the lines of the journal.
func (h *house) recorded() (all []palyra.VaultChanged) {
	h.Helper()
	h.ok(h.Journal.Bodies(h.Context(), "", func(body []byte) error {
		var e palyra.VaultChanged
		err := json.Unmarshal(body, &e)
		all = append(all, e)
		return err
	}))
	return all
}

// furnish puts some of everything.
func (h *house) furnish() {
	h.Helper()
	for i, in := range []secrets.Value{
		{Scope: secrets.Global, Name: "token", Value: text("value one of the token")},
		{Scope: secrets.Global, Name: "token", Value: text("value two of the token"), Expires: h.now.Add(time.Hour)},
		{Scope: secrets.Global, Name: "pin", Value: text("1234"), Unmasked: true},
		{Scope: "channel:mail", Name: "token", Value: text("value of the channel's token")},
		{Scope: "session:01X", Name: "a.b-c_d", Value: text("value \x00\xff\n that is no text")},
		{Scope: "principal:user:ada", Name: "own", Value: text(strings.Repeat("value of ada's own ", 3000))},
		{Scope: "principal:user:bob", Name: "own", Value: text("value of bob's own secret")},
		{Scope: "skill:x", Name: "z", Value: text("value of the skill's")},
	} {
		by := ada
		if in.Scope == "principal:user:bob" {
			by.Principal = "user:bob"
		}
		h.now = h.now.Add(time.Duration(i) * 1234567 * time.Nanosecond)
		_, err := h.Put(h.Context(), in, by)
		h.ok(err)
	}
}

func TestAnExportIsReadableElsewhere(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.furnish()
	before := h.everything()
	file := h.export(true)
	if got := h.everything(); !reflect.DeepEqual(got, before) {
		t.Errorf("the export changed %v", got)
	}
	e := h.recorded()
	if got := e[len(e)-1]; got.Action != "vault.export" || got.Versions != 8 || got.Mode != "everyone" || got.Counter != 8 ||
		got.By != ada.Principal {
		t.Errorf("on record is %+v", got)
	}
	h.again()
	h.want("pin", "1234") // the line does not count as a change
	other := newHouse(t, t.TempDir())
	other.now = h.now
	got, err := other.take(file, secrets.Add, secrets.By{Principal: "user:carl", Role: palyra.RoleOwner})
	if want := (secrets.Imported{Versions: 8, Added: 7, Keeper: keeper.KeyFile}); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	other.again()
	if got := other.everything(); !reflect.DeepEqual(got, before) || len(got) != 8 {
		t.Errorf("elsewhere there is\n%v\nnot\n%v", got, before)
	}
	if e := other.recorded(); len(e) != 1 || e[0].Action != "vault.import" || e[0].Versions != 8 || e[0].Counter != 1 ||
		e[0].By != "user:carl" || e[0].Mode != "" {
		t.Errorf("on record is %+v", e)
	}
	if info := other.put("token", "value three of the token"); info.Version != 3 {
		t.Errorf("after the import: version %d", info.Version)
	}
	other.now = other.now.Add(2 * time.Hour)
	if _, _, err := other.Get(t.Context(), secrets.Global, "token", 2); palyra.CodeOf(err) != palyra.Expired {
		t.Errorf("after its time: %v", err)
	}
	if again := other.export(true); len(again) <= len(file) { // also what is past its time
		t.Errorf("%d bytes after %d", len(again), len(file))
	}
}

// Bindings are in an export, come back as they were, and are one with the rest: all or nothing.
func TestBindingsAreExported(t *testing.T) {
	h := newHouse(t, t.TempDir())
	_, err := h.Put(h.Context(), secrets.Value{Scope: secrets.Global, Name: "token", Value: text("value one of the token")}, ada)
	h.ok(err)
	bind := func(h *house, name, header string) {
		t.Helper()
		_, err := h.Bind(h.Context(), secrets.Binding{
			Name: name, Secret: "token", Kind: secrets.Header, Place: header, Hosts: []string{"api.example.com:443"}, Env: "TOKEN",
		}, ada)
		h.ok(err)
	}
	bind(h, "api", "Authorization")
	bind(h, "other", "X-Token")
	want, err := h.Bindings(h.Context())
	h.ok(err)
	file := h.export(true)
	carl := secrets.By{Principal: "user:carl", Role: palyra.RoleOwner}
	other := newHouse(t, t.TempDir())
	other.now = h.now
	got, err := other.take(file, secrets.Add, carl)
	if err != nil || got.Bindings != 2 || got.Versions != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	other.again()
	all, err := other.Bindings(other.Context())
	a, _ := json.Marshal(all)
	b, _ := json.Marshal(want)
	if err != nil || string(a) != string(b) {
		t.Errorf("%s, %v\nnot\n%s", a, err, b)
	}
	if got, err := other.take(file, secrets.Add, carl); err != nil || got.Bindings != 0 || got.Same != 1 {
		t.Errorf("once more: %+v, %v", got, err)
	}
	bind(other, "api", "X-Changed")
	if _, err := other.take(file, secrets.Add, carl); palyra.AsError(err).Reason != palyra.ReasonExists {
		t.Errorf("a binding that differs: %v", err)
	}
	for _, mode := range []secrets.ImportMode{secrets.Replace, secrets.Anew} {
		bind(other, "api", "X-Changed")
		if got, err := other.take(file, mode, carl); err != nil || got.Bindings < 1 {
			t.Errorf("%s: %+v, %v", mode, got, err)
		}
		all, err := other.Bindings(other.Context())
		if a, _ := json.Marshal(all); err != nil || string(a) != string(b) {
			t.Errorf("%s: %s, %v", mode, a, err)
		}
	}
}

func TestImportWhereSomethingIs(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.put("same", "value that stays the same")
	h.put("other", "value of the export")
	h.put("more", "value one of more")
	file := h.export(false)

	in := newHouse(t, t.TempDir())
	_, err := in.take(file, secrets.Add, ada)
	in.ok(err)
	in.put("more", "value two of more")
	got, err := in.take(file, secrets.Add, ada)
	if err != nil || got.Same != 3 || got.Versions != 0 {
		t.Errorf("once more: %+v, %v", got, err)
	}
	in.want("more", "value two of more")
	in.ok(in.Delete(t.Context(), secrets.Global, "more", 1, ada)) // what was removed does not come back by itself
	if _, err := in.take(file, secrets.Add, ada); palyra.AsError(err).Reason != palyra.ReasonExists {
		t.Errorf("with a version removed: %v", err)
	}
}

func TestImportOfWhatDiffers(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.put("same", "value that stays the same")
	h.put("other", "value of the export")
	file := h.export(false)
	in := newHouse(t, t.TempDir())
	in.put("same", "value that stays the same")
	for range 2 {
		in.put("other", "value of somebody else")
	}
	in.put("third", "value that is only here")
	before, lines := in.everything(), len(in.recorded())
	if _, err := in.take(file, secrets.Add, ada); palyra.AsError(err).Reason != palyra.ReasonExists ||
		!strings.Contains(err.Error(), "other") {
		t.Errorf("%v", err)
	}
	if got := in.everything(); !reflect.DeepEqual(got, before) || len(in.recorded()) != lines {
		t.Errorf("a refused import changed %v", got)
	}
	got, err := in.take(file, secrets.Replace, ada)
	if want := (secrets.Imported{Versions: 1, Replaced: 1, Same: 1, Keeper: keeper.KeyFile}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	in.again()
	in.want("other", "value of the export")
	in.want("same", "value that stays the same")
	in.want("third", "value that is only here")
	if list, err := in.List(t.Context()); err != nil || len(list) != 3 {
		t.Errorf("%d versions, %v", len(list), err)
	}
	if _, err := in.take(file, "merge", ada); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("an unknown mode: %v", err)
	}
}

// Whoever may put a secret and not see it does not find out by an import whether they know its value.
func TestAnImportTellsNoValue(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.put("token", "value that eve guesses")
	file := h.export(false)
	admin := secrets.By{Principal: "user:eve", Role: palyra.RoleAdmin}
	if _, err := h.take(file, secrets.Add, admin); palyra.AsError(err).Reason != palyra.ReasonExists {
		t.Errorf("%v", err)
	}
	if _, err := h.take(file, secrets.Add, ada); err != nil {
		t.Errorf("%v", err)
	}
}

// ruin are ways in which a vault is lost.
var ruin = map[string]func(*house){
	"a value is changed":    func(h *house) { h.exec(`UPDATE vault_secrets SET wrapped=sealed`) },
	"a row is of no type":   func(h *house) { h.exec(`UPDATE vault_secrets SET created_at='x'`) },
	"the manifest is gone":  func(h *house) { h.exec(`DELETE FROM vault_manifest`) },
	"the manifest is none":  func(h *house) { h.exec(`UPDATE vault_manifest SET counter='x', mac=1`) },
	"it is empty":           func(h *house) { h.exec(`DELETE FROM vault_secrets`); h.exec(`DELETE FROM vault_manifest`) },
	"its keeper is unknown": func(h *house) { h.exec(`UPDATE vault_manifest SET keeper='moon'`) },
	"its key is gone": func(h *house) {
		keys, err := filepath.Glob(filepath.Join(h.dir, "vault-*.key"))
		h.ok(err)
		for _, k := range keys {
			h.ok(os.Remove(k))
		}
	},
	"nothing": func(*house) {},
}

func TestBeginAnewFromAnExport(t *testing.T) {
	for what, destroy := range ruin {
		h := newHouse(t, t.TempDir())
		h.put("one", "value of the first")
		h.put("one", "value of the first, again")
		file := h.export(false)
		h.put("late", "value that came after the export")
		before := len(h.recorded())
		destroy(h)
		h.again()
		if _, err := h.take(file, secrets.Anew, secrets.By{Principal: "user:eve", Role: palyra.RoleAdmin}); palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s: an admin begins anew: %v", what, err)
		}
		if _, err := h.take(file, secrets.Replace, ada); what != "nothing" && err == nil {
			t.Errorf("%s: something is imported without a word", what)
		} else if e := palyra.AsError(err); err != nil && !strings.Contains(e.Remedy, "--anew") {
			t.Errorf("%s: %v, remedy: %s", what, err, e.Remedy)
		}
		got, err := h.take(file, secrets.Anew, ada)
		if err != nil || got.Versions != 2 || got.Added != 1 {
			t.Errorf("%s: %+v, %v", what, got, err)
			continue
		}
		for range 2 {
			h.want("one", "value of the first, again")
			if _, err := h.get("late"); palyra.CodeOf(err) != palyra.NotFound {
				t.Errorf("%s: what was not in the export: %v", what, err)
			}
			h.again()
		}
		all := h.recorded()
		last := all[len(all)-1]
		if len(all) <= before || last.Action != "vault.import" || last.Mode != "anew" || last.Versions != 2 || last.Counter <= 3 {
			t.Errorf("%s: on record is %+v", what, last)
		}
		if keys, err := filepath.Glob(filepath.Join(h.dir, "vault-*.key")); err != nil || len(keys) != 1 {
			t.Errorf("%s: keys %q, %v", what, keys, err)
		}
		h.put("one", "value of the first, later")
	}
}

func TestWhoMayExportAndImport(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.furnish()
	policy := owners{}
	h.Policy = policy
	refused := func(what string, want palyra.Reason, everyone bool, by secrets.By) {
		t.Helper()
		var out bytes.Buffer
		lines := len(h.recorded())
		_, err := h.Export(t.Context(), &out, text(recovery), everyone, by)
		if e := palyra.AsError(err); err == nil || e.Reason != want || out.Len() > 0 || len(h.recorded()) != lines || e.Remedy == "" {
			t.Errorf("%s: %v, %d bytes", what, err, out.Len())
		}
	}
	refused("bob's", palyra.ReasonScopeDenied, false, ada)
	refused("an admin", palyra.ReasonPermission, true, secrets.By{Principal: "user:eve", Role: palyra.RoleAdmin})
	policy["vault.get z"] = true
	refused("policy", palyra.ReasonPermission, true, ada)
	delete(policy, "vault.get z")
	file := h.export(true)
	in := newHouse(t, t.TempDir())
	in.Policy = policy
	if got, err := in.take(file, secrets.Add, secrets.By{Principal: "user:eve", Role: palyra.RoleAdmin}); got.Versions != 0 ||
		palyra.AsError(err).Reason != palyra.ReasonPermission {
		t.Errorf("an admin takes what is for others: %+v, %v", got, err)
	}
	policy["vault.put z"] = true
	if got, err := in.take(file, secrets.Add, ada); got.Versions != 0 || palyra.AsError(err).Reason != palyra.ReasonPermission {
		t.Errorf("against policy: %+v, %v", got, err)
	}
	if s, err := in.Status(t.Context()); err != nil || s.State != secrets.Empty {
		t.Errorf("%+v, %v", s, err)
	}
	var out bytes.Buffer
	if _, err := in.Export(t.Context(), &out, text(recovery), false, ada); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("of an empty vault: %v", err)
	}
	if _, err := h.Export(t.Context(), &out, text("elevenbytes"), true, ada); palyra.CodeOf(err) != palyra.Invalid || out.Len() > 0 {
		t.Errorf("with a short passphrase: %v", err)
	}
	h.exec(`DROP TABLE lines`)
	if n, err := h.Export(t.Context(), &out, text(recovery), true, ada); err == nil || n != 0 {
		t.Error("it was exported and is not on record")
	}
}

// A vault that was changed is not exported.
func TestADamagedVaultIsNotExported(t *testing.T) {
	for _, do := range []string{
		`UPDATE vault_secrets SET sealed=wrapped WHERE name='pin'`, `DELETE FROM vault_secrets WHERE name='pin'`,
		`UPDATE vault_secrets SET expires_at=5 WHERE name='pin'`, `UPDATE vault_secrets SET expires_at='x' WHERE name='pin'`,
		`INSERT INTO vault_secrets SELECT scope, 'extra', version, data_key, vault_key, wrapped, sealed, unmasked, created_by, created_at, expires_at
			FROM vault_secrets WHERE name='pin'`,
	} {
		for _, open := range []bool{true, false} {
			h := newHouse(t, t.TempDir())
			h.furnish()
			h.exec(do)
			if !open {
				h.again()
			}
			_, err := h.Export(t.Context(), &bytes.Buffer{}, text(recovery), true, ada)
			if palyra.AsError(err).Reason != palyra.ReasonVaultDamaged {
				t.Errorf("%s, open %v: %v", do, open, err)
			}
		}
	}
}

// sealText makes an export of any text.
func sealText(t testing.TB, body string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := agefile.NewWriter(&out, []byte(recovery))
	if err == nil {
		_, err = w.Write([]byte(body))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// plainText is the text of an export.
func plainText(t testing.TB, file []byte) string {
	t.Helper()
	b, err := agefile.Open(file, []byte(recovery), 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Whatever is not an export, or not as it was written, or not opened by the passphrase, is refused by name, and nothing
// is changed by it.
func TestWhatIsNoExport(t *testing.T) {
	h := newHouse(t, t.TempDir())
	h.put("one", "value of the first")
	h.put("one", "value of the first, again")
	h.put("two", "value of the second")
	file := h.export(false)
	in := newHouse(t, t.TempDir())
	in.put("here", "value that is here")
	want := func() string { return fmt.Sprint(in.everything(), len(in.recorded())) }
	before := want()
	refused := func(what string, file []byte, pass string, reasons ...palyra.Reason) {
		t.Helper()
		got, err := in.Import(t.Context(), bytes.NewReader(file), int64(len(file)), text(pass), secrets.Replace, ada)
		e := palyra.AsError(err)
		named := false
		for _, r := range reasons {
			named = named || err != nil && e.Reason == r
		}
		if !named || e.Remedy == "" || got.Versions != 0 || strings.Contains(err.Error(), "value of") {
			t.Errorf("%s: %+v, %v (%s)", what, got, err, e.Reason)
		}
	}
	changed := []palyra.Reason{palyra.ReasonBadCredential, palyra.ReasonVerifyFailed, palyra.ReasonMalformedInput}
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 1 << (i % 8)
		refused(fmt.Sprintf("byte %d flipped", i), bad, recovery, changed...)
		refused(fmt.Sprintf("cut at %d", i), file[:i], recovery, changed...)
	}
	refused("longer", append(bytes.Clone(file), 0), recovery, palyra.ReasonVerifyFailed)
	refused("another passphrase", file, recovery+"x", palyra.ReasonBadCredential)
	refused("no passphrase", file, "", palyra.ReasonBadCredential)
	refused("a picture", []byte("\x89PNG\r\n\x1a\n and so on and so forth"), recovery, palyra.ReasonMalformedInput)
	good := plainText(t, file)
	lines := strings.SplitAfter(good, "\n")
	for what, body := range map[string]string{
		"nothing": "", "text": "hello\n", "another version": strings.Replace(good, `"version":1`, `"version":2`, 1),
		"another format":   strings.Replace(good, "palyra-vault-export", "palyra-vault-exports", 1),
		"more lines":       good + lines[1],
		"fewer lines":      lines[0] + lines[1],
		"twice":            lines[0] + lines[1] + lines[1] + lines[3],
		"another order":    lines[0] + lines[3] + lines[1] + lines[2],
		"no end":           strings.TrimSuffix(good, "\n"),
		"spaces":           strings.Replace(good, `,"`, `, "`, 1),
		"another field":    strings.Replace(good, `"value_b64"`, `"x":1,"value_b64"`, 1),
		"a bad name":       strings.Replace(good, `"name":"two"`, `"name":"../two"`, 1),
		"a bad scope":      strings.Replace(good, `"scope":"global"`, `"scope":"moon"`, 1),
		"no value":         strings.Replace(good, `"value_b64":"`+b64("value of the second")+`"`, `"value_b64":""`, 1),
		"null":             strings.Replace(good, `"value_b64":"`+b64("value of the second")+`"`, `"value_b64":null`, 1),
		"a short value":    strings.Replace(good, b64("value of the second"), b64("short"), 1),
		"a long value":     strings.Replace(good, b64("value of the second"), b64(strings.Repeat("x", MaxValue+1)), 1),
		"a longer line":    strings.Replace(good, b64("value of the second"), b64(strings.Repeat("x", 2*maxLine)), 1),
		"an odd version":   strings.Replace(good, `"name":"two","version":1`, `"name":"two","version":-1`, 1),
		"nobody":           strings.Replace(good, `"created_by":"user:ada"`, `"created_by":""`, 1),
		"a time elsewhere": strings.Replace(good, `Z","value_b64"`, `+01:00","value_b64"`, 1),
		"too many":         strings.Replace(good, `"versions":3`, `"versions":10001`, 1),
		"none":             strings.Replace(lines[0], `"versions":3`, `"versions":0`, 1),
	} {
		if body == good {
			t.Fatalf("%s is what is good", what)
		}
		refused(what, sealText(t, body), recovery, palyra.ReasonMalformedInput)
	}
	_, err := in.Import(t.Context(), bytes.NewReader(file), secrets.MaxExport+1, text(recovery), secrets.Add, ada)
	if palyra.AsError(err).Reason != palyra.ReasonInputTooLarge {
		t.Errorf("too large: %v", err)
	}
	if got := want(); got != before {
		t.Errorf("what was refused changed\n%s\nto\n%s", before, got)
	}
	got, err := in.take(sealText(t, good), secrets.Add, ada)
	if err != nil || got.Versions != 3 {
		t.Errorf("what is good: %+v, %v", got, err)
	}
}

func b64(s string) string {
	out, _ := json.Marshal([]byte(s))
	return strings.Trim(string(out), `"`)
}

// manyLines is the text of an export of n versions, every hundredth of which is as large as can be.
func manyLines(t testing.TB, n int) string {
	t.Helper()
	var out bytes.Buffer
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	err := writeLine(&out, exportHead{Format: exportFormat, Version: exportVersion, By: "user:ada", At: at, Versions: int64(n)})
	for i := range n {
		value := strings.Repeat("v", 20)
		if i%100 == 0 {
			value = strings.Repeat("v", MaxValue)
		}
		line := exportLine{
			Info: secrets.Info{
				Scope: secrets.Global, Name: fmt.Sprintf("s%05d", i/10), Version: int64(i%10 + 1), CreatedBy: "user:ada", CreatedAt: at,
			},
			Value: []byte(value),
		}
		err = errors.Join(err, writeLine(&out, line))
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The largest vault is exported and imported.
func TestTheLargestVault(t *testing.T) {
	h := newHouse(t, t.TempDir())
	got, err := h.take(sealText(t, manyLines(t, MaxSecrets)), secrets.Add, ada)
	if err != nil || got.Versions != MaxSecrets || got.Added != MaxSecrets/10 {
		t.Fatalf("%+v, %v", got, err)
	}
	file := h.export(false)
	if got, err = h.take(file, secrets.Add, ada); err != nil || got.Versions != 0 || got.Same != MaxSecrets/10 {
		t.Errorf("%+v, %v", got, err)
	}
	one := strings.ReplaceAll(manyLines(t, 1), "s00000", "another")
	if _, err := h.take(sealText(t, one), secrets.Add, ada); palyra.CodeOf(err) != palyra.Exhausted {
		t.Errorf("one more: %v", err)
	}
	if _, err := h.take(sealText(t, manyVersions(t, MaxVersions+1)), secrets.Add, ada); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("too many versions of one: %v", err)
	}
	// A file of the largest lines is no larger than what is taken.
	longest := exportLine{Info: secrets.Info{
		Scope: secrets.Scope("principal:" + strings.Repeat("x", 256)), Name: strings.Repeat("n", 128), Version: 1 << 62,
		CreatedBy: palyra.Principal("user:" + strings.Repeat("&", maxPrincipal-5)), CreatedAt: h.now.UTC(), ExpiresAt: h.now.UTC(),
		Unmasked: true,
	}, Value: make([]byte, MaxValue)}
	var out bytes.Buffer
	h.ok(writeLine(&out, longest))
	if n := out.Len(); n > maxLine || int64(n)*MaxSecrets*1001/1000+maxLine > secrets.MaxExport {
		t.Errorf("a line of %d bytes", n)
	}
}

func manyVersions(t testing.TB, n int) string {
	t.Helper()
	var out bytes.Buffer
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	err := writeLine(&out, exportHead{Format: exportFormat, Version: exportVersion, By: "user:ada", At: at, Versions: int64(n)})
	for i := range n {
		line := exportLine{
			Info:  secrets.Info{Scope: secrets.Global, Name: "many", Version: int64(i + 1), CreatedBy: "user:ada", CreatedAt: at},
			Value: []byte("a value of many"),
		}
		err = errors.Join(err, writeLine(&out, line))
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Nothing but what an export would write is read as one.
func FuzzReadExport(f *testing.F) {
	f.Add([]byte(manyVersions(f, 3)))
	f.Add([]byte(manyVersions(f, MaxVersions)))
	f.Add([]byte(""))
	f.Add([]byte(`{"format":"palyra-vault-export","version":1}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var head exportHead
		var again bytes.Buffer
		first, _, _ := bytes.Cut(in, []byte("\n"))
		_ = json.Unmarshal(first, &head)
		if err := writeLine(&again, head); err != nil {
			return
		}
		last := ident{}
		err := readExport(bytes.NewReader(in), func(l exportLine) error {
			if secrets.CheckName(l.Scope, l.Name) != nil || l.ident().compare(last) <= 0 || len(l.Value) == 0 || len(l.Value) > MaxValue {
				t.Errorf("%+v is read", l.Info)
			}
			last = l.ident()
			return writeLine(&again, exportLine{Info: row{
				ident: l.ident(), unmasked: flag(l.Unmasked), by: l.CreatedBy, created: store.Nanos(l.CreatedAt), expires: store.Nanos(l.ExpiresAt),
			}.info(), Value: l.Value})
		}, func(b secrets.Binding) error { return writeLine(&again, b) })
		if err == nil && !bytes.Equal(in, again.Bytes()) {
			t.Errorf("%q is read, and %q would be written", in, again.Bytes())
		}
		if e := palyra.AsError(err); err != nil && (e.Remedy == "" || e.Code != palyra.Invalid) {
			t.Errorf("%v", err)
		}
	})
}
