package registry

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/store"
)

// rows counts what is kept of skills.
func (w *world) rows() (n int64) {
	w.t.Helper()
	for _, table := range []string{"skills", "skill_packages", "skill_uses"} {
		var of int64
		err := w.db.Read(w.t.Context(), func(tx *store.Tx) error { return tx.Get(`SELECT count(*) FROM `+table, nil, &of) })
		if err != nil {
			w.t.Fatal(err)
		}
		n += of
	}
	return n
}

// Whichever byte of a signed package is another one, missing or too many: it is refused by a reason of skills with a remedy, and
// nothing of it is kept, offered or on record. The same package as it is can be installed afterwards.
func TestEveryByteCounts(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	good := folderPackage(t, 1)
	lines := len(w.lines.lines)
	refused := func(what string, raw []byte) {
		t.Helper()
		_, err := w.Install(t.Context(), skill.Addition{Package: raw, Widen: true, By: w.by})
		e := palyra.AsError(err)
		if err == nil || !strings.HasPrefix(string(e.Reason), "skill_") || e.Remedy == "" || e.Text == "" {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for i := range good {
		for _, bit := range []byte{1, 0x20, 0x80} {
			bad := bytes.Clone(good)
			bad[i] ^= bit
			refused(fmt.Sprintf("byte %d ^ %#x", i, bit), bad)
		}
		refused(fmt.Sprintf("without byte %d", i), append(bytes.Clone(good[:i]), good[i+1:]...))
		refused(fmt.Sprintf("with a byte before %d", i), append(append(bytes.Clone(good[:i]), 0), good[i:]...))
		refused(fmt.Sprintf("%d bytes of it", i), good[:i])
	}
	if n := w.rows(); n != 0 || len(w.lines.lines) != lines || len(w.offered()) != 0 {
		t.Errorf("%d rows, %d lines, %q", n, len(w.lines.lines)-lines, w.offered())
	}
	w.install(good)
	if n := w.rows(); n != 2 {
		t.Errorf("%d rows of one skill", n)
	}
}

// folderPackage is a small package, without a module.
func folderPackage(t testing.TB, signer byte) []byte {
	t.Helper()
	text := "format = \"palyra-manifest/1\"\nid = \"notes\"\nversion = \"1.0.0\"\npublisher = \"acme\"\ndescription = \"Notes.\"\n[folder]\n"
	raw, err := archive.Pack(map[string][]byte{skill.ManifestName: []byte(text), archive.Text: []byte("# Notes\n")})
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
