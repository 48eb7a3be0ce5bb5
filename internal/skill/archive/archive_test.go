package archive

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/skill"
)

const text = `format = "palyra-manifest/1"
id = "demo"
version = "0.1.0"
publisher = "acme"
description = "A demo."
[[tools]]
name = "greet"
description = "Greets."
module = "demo.wasm"
input_schema = '{"type":"object"}'
[folder]
scripts = ["scripts/run.py"]
`

func sample() map[string][]byte {
	return map[string][]byte{
		skill.ManifestName: []byte(text), "demo.wasm": []byte("\x00asm\x01\x00\x00\x00"), Readme: []byte("# demo\n"),
		Text: []byte("---\nname: demo\n---\n"), Folder + "scripts/run.py": []byte("print(1)\n"),
	}
}

func key(n byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, 32)) }

func pub(n byte) ed25519.PublicKey { return key(n).Public().(ed25519.PublicKey) }

func signed(t testing.TB) []byte {
	t.Helper()
	raw, err := Pack(sample())
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = Sign(p, key(1)); err != nil {
		t.Fatal(err)
	}
	return raw
}

// check opens a package and checks its signature.
func verified(raw []byte, by ed25519.PublicKey) error {
	p, err := Open(raw)
	if err != nil {
		return err
	}
	return p.Verify(by)
}

func TestPackage(t *testing.T) {
	one, err := Pack(sample())
	two, again := Pack(sample())
	if err != nil || again != nil || !bytes.Equal(one, two) {
		t.Fatal("packed twice, it is not the same", err, again)
	}
	raw := signed(t)
	if !bytes.Equal(raw, signed(t)) {
		t.Error("signed twice, it is not the same")
	}
	if err := verified(raw, pub(1)); err != nil {
		t.Fatal(err)
	}
	p, _ := Open(raw)
	if id, err := p.SignedBy(); err != nil || id != KeyID(pub(1)) || len(p.Names()) != 6 || FileName(p.Manifest) != "demo-0.1.0.skill" {
		t.Error(id, err, p.Names())
	}
	other, err := Sign(p, key(2))
	if err != nil || verified(other, pub(2)) != nil || palyra.AsError(verified(other, pub(1))).Reason != skill.ReasonSignature {
		t.Error("a second signature takes the place of the first", err)
	}
	if e := palyra.AsError(verified(one, pub(1))); e.Reason != skill.ReasonUnsigned {
		t.Error(e)
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil || len(z.File) != 6 {
		t.Error("it is no ordinary zip", err)
	}
}

// Every byte counts: whichever is changed, added or taken away, the package is refused by a named error.
func TestOneFlippedByte(t *testing.T) {
	raw := signed(t)
	named := func(what string, bad []byte) {
		t.Helper()
		err := verified(bad, pub(1))
		if e := palyra.AsError(err); err == nil || !strings.HasPrefix(string(e.Reason), "skill_") || e.Remedy == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range raw {
		for _, bit := range []byte{1, 0x80, 0xff} {
			bad := bytes.Clone(raw)
			bad[i] ^= bit
			named(fmt.Sprintf("byte %d ^ %x", i, bit), bad)
		}
		named(fmt.Sprintf("without byte %d", i), append(bytes.Clone(raw[:i]), raw[i+1:]...))
		named(fmt.Sprintf("with a byte before %d", i), append(append(bytes.Clone(raw[:i]), 'x'), raw[i:]...))
	}
	named("a byte behind", append(bytes.Clone(raw), 0))
	named("the half of it", raw[:len(raw)/2])
	named("nothing", nil)
}

// An entry that the signature does not name, or that it names and is not there, in a package of the one form.
func TestSignatureIsOfAllEntries(t *testing.T) {
	p, err := Open(signed(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string][]byte){
		"more":    func(f map[string][]byte) { f[License] = []byte("x") },
		"less":    func(f map[string][]byte) { delete(f, Readme) },
		"other":   func(f map[string][]byte) { f[Readme] = []byte("# other\n") },
		"renamed": func(f map[string][]byte) { f[License] = f[Readme]; delete(f, Readme) },
		"version": func(f map[string][]byte) {
			f[skill.ManifestName] = bytes.Replace(f[skill.ManifestName], []byte("0.1.0"), []byte("0.2.0"), 1)
		},
		"publisher": func(f map[string][]byte) {
			f[skill.ManifestName] = bytes.Replace(f[skill.ManifestName], []byte("acme"), []byte("acne"), 1)
		},
		"spaces": func(f map[string][]byte) { f[Signature] = append(f[Signature], ' ') },
		"two": func(f map[string][]byte) {
			f[Signature] = bytes.Replace(f[Signature], []byte(`"signatures":[`), []byte(`"signatures":[{"keyid":"x","sig":""},`), 1)
		},
		"none": func(f map[string][]byte) {
			f[Signature] = []byte(`{"payloadType":"x","payload":"","signatures":[]}` + "\n")
		},
	} {
		files := maps.Clone(p.Files)
		change(files)
		raw, err := Pack(files)
		if err != nil {
			t.Fatal(name, err)
		}
		if e := palyra.AsError(verified(raw, pub(1))); e.Reason != skill.ReasonSignature {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// entry is one of a zip that somebody made with other tools.
type entry struct {
	name   string
	data   []byte
	mode   fs.FileMode
	method uint16
	says   uint64 // how large it says it is
}

func zipped(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: e.method}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		var err error
		if e.says > 0 {
			h.CompressedSize64, h.UncompressedSize64, h.CRC32 = uint64(len(e.data)), e.says, crc32.ChecksumIEEE(e.data)
			raw, bad := w.CreateRaw(h)
			if bad == nil {
				_, err = raw.Write(e.data)
			}
		} else {
			body, bad := w.CreateHeader(h)
			if bad == nil {
				_, err = body.Write(e.data)
			}
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

// What strangers put into zip files: each is refused by its own name.
func TestHostileZips(t *testing.T) {
	m := entry{name: skill.ManifestName, data: []byte(text)}
	many := make([]entry, 0, 400)
	for i := range 400 {
		many = append(many, entry{name: fmt.Sprintf("folder/f%d", i)})
	}
	for name, c := range map[string]struct {
		raw  []byte
		want palyra.Reason
	}{
		"up":             {zipped(t, m, entry{name: "../../etc/cron.d/x", data: []byte("x")}), skill.ReasonName},
		"up in a folder": {zipped(t, m, entry{name: "folder/../../x", data: []byte("x")}), skill.ReasonName},
		"absolute":       {zipped(t, m, entry{name: "/etc/passwd"}), skill.ReasonName},
		"backslash":      {zipped(t, m, entry{name: `folder\..\..\x`}), skill.ReasonName},
		"drive":          {zipped(t, m, entry{name: "C:x"}), skill.ReasonName},
		"raw bytes":      {zipped(t, m, entry{name: "folder/\xff\xfe"}), skill.ReasonName},
		"NUL":            {zipped(t, m, entry{name: "folder/a\x00.py"}), skill.ReasonName},
		"right to left":  {zipped(t, m, entry{name: "folder/\u202egpj.py"}), skill.ReasonName},
		"hidden":         {zipped(t, m, entry{name: "folder/.bashrc"}), skill.ReasonName},
		"device":         {zipped(t, m, entry{name: "folder/nul.txt"}), skill.ReasonName},
		"directory":      {zipped(t, m, entry{name: "folder/"}), skill.ReasonName},
		"elsewhere":      {zipped(t, m, entry{name: "bin/x"}), skill.ReasonName},
		"twice":          {zipped(t, m, entry{name: "README.md"}, entry{name: "README.md"}), skill.ReasonName},
		"case":           {zipped(t, m, entry{name: "folder/A"}, entry{name: "folder/a"}), skill.ReasonName},
		"case of a dir":  {zipped(t, m, entry{name: "folder/A/x"}, entry{name: "folder/a"}), skill.ReasonName},
		"file and dir":   {zipped(t, m, entry{name: "folder/a"}, entry{name: "folder/a/b"}), skill.ReasonName},
		"symlink":        {zipped(t, m, entry{name: "folder/l", data: []byte("/etc"), mode: fs.ModeSymlink | 0o777}), skill.ReasonName},
		"bomb":           {zipped(t, m, entry{name: "folder/b", data: make([]byte, 4<<20), method: zip.Deflate}), skill.ReasonCompress},
		"liar":           {zipped(t, m, entry{name: "folder/b", data: []byte("x"), says: 1 << 30}), skill.ReasonCompress},
		"large":          {zipped(t, m, entry{name: "folder/b", data: make([]byte, maxOther+1)}), skill.ReasonTooLarge},
		"large module":   {zipped(t, entry{name: "demo.wasm", data: make([]byte, MaxModule+1)}), skill.ReasonTooLarge},
		"many":           {zipped(t, many...), skill.ReasonTooLarge},
		"whole":          {make([]byte, MaxBytes+1), skill.ReasonTooLarge},
		"other form":     {zipped(t, m, entry{name: "demo.wasm", data: []byte("\x00asm")}, entry{name: Text}), skill.ReasonManifest},
		"a comment":      {append(signed(t), "comment"...), skill.ReasonArchive},
		"in front":       {append([]byte("#!/bin/sh\n"), signed(t)...), skill.ReasonArchive},
		"not a zip":      {[]byte(strings.Repeat("x", 100)), skill.ReasonArchive},
	} {
		p, err := Open(c.raw)
		if e := palyra.AsError(err); err == nil || e.Reason != c.want || p != nil || !strings.Contains(e.Remedy, "nothing was installed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The same entries in the form of another tool are not a package.
func TestOneForm(t *testing.T) {
	var all []entry
	for name, data := range sample() {
		all = append(all, entry{name: name, data: data})
	}
	if e := palyra.AsError(func() error { _, err := Open(zipped(t, all...)); return err }()); e.Reason != skill.ReasonArchive {
		t.Error(e)
	}
}

func TestPackRefuses(t *testing.T) {
	for name, change := range map[string]func(map[string][]byte){
		"no manifest":     func(f map[string][]byte) { delete(f, skill.ManifestName) },
		"no module":       func(f map[string][]byte) { delete(f, "demo.wasm") },
		"not a module":    func(f map[string][]byte) { f["demo.wasm"] = []byte("#!/bin/sh") },
		"a stray module":  func(f map[string][]byte) { f["other.wasm"] = []byte("\x00asm") },
		"no text":         func(f map[string][]byte) { delete(f, Text) },
		"no script":       func(f map[string][]byte) { delete(f, Folder+"scripts/run.py") },
		"a stray folder":  func(f map[string][]byte) { f[skill.ManifestName] = []byte(strings.Split(text, "[folder]")[0]) },
		"a strange entry": func(f map[string][]byte) { f["x/y"] = nil },
		"too many": func(f map[string][]byte) {
			for i := range MaxEntries {
				f[fmt.Sprintf("folder/f%d", i)] = nil
			}
		},
	} {
		files := sample()
		change(files)
		if raw, err := Pack(files); err == nil || raw != nil {
			t.Errorf("%s: packed", name)
		}
	}
}

func TestKeys(t *testing.T) {
	k, file, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseKey(file)
	if err != nil || !k.Equal(again) {
		t.Error(err)
	}
	p := k.Public().(ed25519.PublicKey)
	if got, err := ParsePublic(PublicText(p) + "\n"); err != nil || !got.Equal(p) {
		t.Error(err)
	}
	for _, bad := range []string{"", "x", PublicText(p)[1:], string(file), "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n"} {
		if _, err := ParsePublic(bad); err == nil || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", PublicText(p), "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"} {
		if _, err := ParseKey([]byte(bad)); err == nil {
			t.Errorf("%.20q is a key", bad)
		}
	}
}

// FuzzOpen: what is accepted is the one form of its entries, holds the names that it may, and one signature fits it only.
func FuzzOpen(f *testing.F) {
	f.Add(signed(f))
	unsigned, err := Pack(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(unsigned)
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Open(raw)
		if err != nil {
			if e := palyra.AsError(err); !strings.HasPrefix(string(e.Reason), "skill_") || e.Remedy == "" {
				t.Fatalf("no named error: %v", err)
			}
			return
		}
		for name := range p.Files {
			if !ValidName(name) {
				t.Fatalf("accepted the name %q", name)
			}
		}
		if again, err := Pack(p.Files); err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("accepted two forms: %v", err)
		}
		if p.Verify(pub(1)) == nil && !bytes.Equal(raw, signed(t)) {
			t.Fatal("one signature fits two packages")
		}
	})
}
