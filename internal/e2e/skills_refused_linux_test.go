package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
)

// notes is a small package, signed; the changes are pairs of what is replaced in its manifest.
func notes(t *testing.T, key ed25519.PrivateKey, changes ...string) []byte {
	t.Helper()
	text := strings.NewReplacer(changes...).Replace(`format = "palyra-manifest/1"
id = "notes"
version = "1.0.0"
publisher = "acme"
description = "Notes."
[folder]
[capabilities]
hosts = ["a.example:443"]
`)
	raw, err := archive.Pack(map[string][]byte{skill.ManifestName: []byte(text), archive.Text: []byte("# Notes\n")})
	if err != nil {
		t.Fatal(err)
	}
	if key == nil {
		return raw
	}
	p, err := archive.Open(raw)
	if err == nil {
		raw, err = archive.Sign(p, key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// zipOf is a zip that other tools make.
func zipOf(t *testing.T, method uint16, mode fs.FileMode, data []byte, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		h := &zip.FileHeader{Name: name, Method: method}
		if mode != 0 {
			h.SetMode(mode)
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// store is the person's side of a daemon that refuses packages.
type store struct {
	*daemon
	t      *testing.T
	person *client.Client
}

// refuses gives a package to the command, and past it to the daemon: both refuse it by the reason, and say what to do.
func (s store) refuses(what string, raw []byte, want palyra.Reason, more ...string) {
	s.t.Helper()
	file := filepath.Join(s.work, "bad.skill")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		s.t.Fatal(err)
	}
	out, err := s.palyra(append([]string{"skills", "install", file, "--json"}, more...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), `"`+string(want)+`"`) || !strings.Contains(string(out), `"remedy"`) {
		s.t.Errorf("%s: the command: %v %s", what, err, out)
	}
	_, err = s.person.InstallSkill(s.t.Context(), raw, len(more) > 0)
	if e := palyra.AsError(err); err == nil || e.Reason != want || e.Remedy == "" {
		s.t.Errorf("%s: the daemon: %v", what, err)
	}
}

// there are the files of the daemon's home, but for what its database and journal have beside them.
func (s store) there() (all []string) {
	s.t.Helper()
	err := filepath.WalkDir(s.home, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && !strings.HasPrefix(filepath.Base(path), "state.db") {
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// changes are the lines of the journal about skills.
func (s store) changes() int {
	s.t.Helper()
	out, err := s.palyra("journal", "tail", "--kind", "skill.changed", "--from", "1", "--json").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return bytes.Count(out, []byte("skill.changed"))
}

// Packages that are damaged, of somebody else, older, greedy or hostile are refused by the built programs with what is wrong and
// what to do; what is installed stays as it is, and nothing is left behind.
func TestBadPackages(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(shipped...)
	s := store{d, t, d.client(client.OperatorDoor)}
	key, _, err := archive.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := archive.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	pub := func(k ed25519.PrivateKey) string { return archive.PublicText(k.Public().(ed25519.PublicKey)) }
	good := notes(t, key)
	s.refuses("a key that nobody trusts", good, skill.ReasonUntrusted)
	for name, k := range map[string]ed25519.PrivateKey{"acme": key, "other": other} {
		if _, err := s.person.TrustPublisher(t.Context(), name, pub(k)); err != nil {
			t.Fatal(err)
		}
	}
	before := s.there()
	s.hostile(good)
	s.refuses("nobody's", notes(t, nil), skill.ReasonUnsigned)
	s.refuses("another's under this name", notes(t, other), skill.ReasonPublisher)
	if all, err := s.person.Skills(t.Context()); err != nil || len(all) != 0 || s.changes() != 0 {
		t.Errorf("%v %+v, %d lines", err, all, s.changes())
	}
	if after := s.there(); !slices.Equal(before, after) {
		t.Errorf("%q, and then %q", before, after)
	}

	is, err := s.person.InstallSkill(t.Context(), notes(t, key, "1.0.0", "1.1.0"), false)
	if err == nil {
		is, err = s.person.EnableSkill(t.Context(), "notes", is.Digest, skill.Capabilities{})
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := s.changes()
	s.refuses("an older one", good, skill.ReasonDowngrade)
	s.refuses("another one of the same version", notes(t, key, "1.0.0", "1.1.0", "Notes.", "Other notes."), skill.ReasonDowngrade)
	s.refuses("one that wants more", notes(t, key, "1.0.0", "1.2.0", "a.example:443", "b.example:443"), skill.ReasonWidened)
	s.refuses("another publisher's", notes(t, other, "1.0.0", "1.2.0", "acme", "other"), skill.ReasonPublisher)
	s.refuses("another publisher's, wider", notes(t, other, "1.0.0", "1.2.0", "acme", "other"), skill.ReasonPublisher, "--widen")
	now, err := s.person.Skill(t.Context(), "notes")
	if err != nil || now.Digest != is.Digest || now.State != skill.Active || s.changes() != lines {
		t.Errorf("%v %+v, %d lines", err, now, s.changes()-lines)
	}
}

// hostile tries what strangers put into packages.
func (s store) hostile(good []byte) {
	s.t.Helper()
	for i := 7; i < len(good); i += len(good)/5 + 1 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x20
		out, err := s.person.InstallSkill(s.t.Context(), bad, false)
		e := palyra.AsError(err)
		if err == nil {
			s.t.Fatalf("byte %d: %+v", i, out)
		}
		s.refuses(fmt.Sprintf("byte %d", i), bad, e.Reason)
	}
	name := func(names ...string) []byte { return zipOf(s.t, zip.Store, 0, []byte("x"), names...) }
	for what, c := range map[string]struct {
		raw  []byte
		want palyra.Reason
	}{
		"up":            {name("../../etc/cron.d/x"), skill.ReasonName},
		"absolute":      {name("/etc/passwd"), skill.ReasonName},
		"raw bytes":     {name("folder/\xff\xfe"), skill.ReasonName},
		"NUL":           {name("folder/a\x00.py"), skill.ReasonName},
		"backslashes":   {name(`folder\..\x`), skill.ReasonName},
		"a device":      {name("folder/CON.txt"), skill.ReasonName},
		"a stream":      {name("folder/a:b"), skill.ReasonName},
		"a dot at last": {name("folder/a."), skill.ReasonName},
		"two cases":     {name("folder/A", "folder/a"), skill.ReasonName},
		"a link":        {zipOf(s.t, zip.Store, fs.ModeSymlink|0o777, []byte("/etc"), "folder/l"), skill.ReasonName},
		"a bomb":        {zipOf(s.t, zip.Deflate, 0, make([]byte, 8<<20), "folder/b"), skill.ReasonCompress},
		"no zip":        {[]byte("PK\x03\x04 is all that there is of it"), skill.ReasonArchive},
		"half of it":    {good[:len(good)/2], skill.ReasonArchive},
	} {
		s.refuses(what, c.raw, c.want)
	}
}
