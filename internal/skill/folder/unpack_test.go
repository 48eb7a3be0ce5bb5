package folder

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
)

// entry is one of an archive.
type entry struct {
	name, text string
	mode       fs.FileMode
}

func zipOf(t testing.TB, all ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range all {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode | 0o644)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(e.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func tarOf(t testing.TB, packed bool, all ...entry) []byte {
	t.Helper()
	var out, whole bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		switch {
		case e.mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, e.text, 0
		case e.mode&fs.ModeNamedPipe != 0:
			h.Typeflag, h.Size = tar.TypeFifo, 0
		case e.mode&fs.ModeIrregular != 0: // here: a link to a file by another name
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, e.text, 0
		}
		err := w.WriteHeader(h)
		if err == nil && h.Size > 0 {
			_, err = w.Write([]byte(e.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !packed {
		return out.Bytes()
	}
	z := gzip.NewWriter(&whole)
	_, err := z.Write(out.Bytes())
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return whole.Bytes()
}

// A folder comes out of every kind of archive as it went in, with or without a directory around it.
func TestUnpack(t *testing.T) {
	text, run := entry{"SKILL.md", "---\nname: a\n---\n", 0}, entry{"scripts/run.sh", "#!/bin/sh\n", 0}
	in := func(dir string, all ...entry) (out []entry) {
		for _, e := range all {
			out = append(out, entry{dir + e.name, e.text, e.mode})
		}
		return out
	}
	junk := []entry{{"__MACOSX/._x", "x", 0}, {"a/.DS_Store", "x", 0}, {"a/node_modules/.bin/x", "../y", fs.ModeSymlink}}
	for name, raw := range map[string][]byte{
		"zip": zipOf(t, text, run), "zip with a directory": zipOf(t, append(in("a/", text, run), junk...)...),
		"tar": tarOf(t, false, text, run), "tar.gz": tarOf(t, true, in("./a/", text, run)...), "readme beside it": zipOf(t,
			append(in("repo/skills/a/", text, run), entry{"repo/README.md", "x", 0})...),
	} {
		files, _, err := Unpack(raw)
		if got := slices.Sorted(maps.Keys(files)); err != nil || strings.Join(got, " ") != "folder/SKILL.md folder/scripts/run.sh" ||
			string(files[archive.Text]) != text.text {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	files, _, err := Unpack([]byte("# Only this\n"))
	if err != nil || string(files[archive.Text]) != "# Only this\n" {
		t.Error(files, err)
	}
	if files, _, err = Unpack(zipOf(t, entry{"skill.md", "---\nname: b\n---\n", 0})); err == nil {
		m, err := Manifest(files, "x", "acme")
		if err != nil || m.ID != "b" {
			t.Error(m, err)
		}
	} else {
		t.Error(err)
	}
	if got := NameOf("/x/pdf.tar.gz") + NameOf("y.skill") + NameOf("SKILL.md"); got != "pdfySKILL" {
		t.Error(got)
	}
}

// Archives that would lead elsewhere, are larger than they seem or hold no folder are refused, each with its reason.
func TestUnpackRefuses(t *testing.T) {
	text := entry{"SKILL.md", "# x\n", 0}
	of := func(name string) []byte { return zipOf(t, text, entry{name, "x", 0}) }
	var many []entry
	for i := range maxListed {
		many = append(many, entry{"d/" + strings.Repeat("x", i%90+1) + string(rune('a'+i%26)) + "/" + strings.Repeat("y", i/90+1), "", 0})
	}
	bomb := strings.Repeat("\x00", 20<<20)
	whole := zipOf(t, text)
	for name, c := range map[string]struct {
		raw  []byte
		want palyra.Reason
	}{
		"up":             {of("../x"), skill.ReasonName},
		"up within":      {of("a/../../x"), skill.ReasonName},
		"absolute":       {of("/etc/x"), skill.ReasonName},
		"backslash":      {of(`a\..\x`), skill.ReasonName},
		"drive":          {of("C:/x"), skill.ReasonName},
		"raw bytes":      {of("a\xff"), skill.ReasonName},
		"control":        {of("a\x1b[31m"), skill.ReasonName},
		"turned":         {of("a\u202egpj.sh"), skill.ReasonName},
		"device":         {of("nul.txt"), skill.ReasonName},
		"twice":          {zipOf(t, text, text), skill.ReasonName},
		"link":           {zipOf(t, text, entry{"l", "/etc/passwd", fs.ModeSymlink}), skill.ReasonArchive},
		"tar link":       {tarOf(t, true, text, entry{"l", "/etc/passwd", fs.ModeSymlink}), skill.ReasonArchive},
		"tar hard link":  {tarOf(t, true, text, entry{"l", "SKILL.md", fs.ModeIrregular}), skill.ReasonArchive},
		"tar pipe":       {tarOf(t, false, text, entry{"l", "", fs.ModeNamedPipe}), skill.ReasonArchive},
		"tar up":         {tarOf(t, true, text, entry{"../x", "x", 0}), skill.ReasonName},
		"no text":        {zipOf(t, entry{"readme.md", "x", 0}), skill.ReasonArchive},
		"two folders":    {zipOf(t, entry{"a/SKILL.md", "x", 0}, entry{"b/SKILL.md", "x", 0}), skill.ReasonArchive},
		"zip bomb":       {zipOf(t, text, entry{"b", bomb, 0}), skill.ReasonCompress},
		"gzip bomb":      {tarOf(t, true, text, entry{"b", bomb, 0}), skill.ReasonCompress},
		"large":          {zipOf(t, text, entry{"b", strings.Repeat("\x00", archive.MaxBytes), 0}), skill.ReasonTooLarge},
		"many":           {zipOf(t, append(many, text)...), skill.ReasonTooLarge},
		"cut off":        {whole[:len(whole)-30], skill.ReasonArchive},
		"nothing":        {nil, skill.ReasonArchive},
		"a program":      {[]byte("\x7fELF\x00\x00"), skill.ReasonArchive},
		"only a gzip":    {tarOf(t, true)[:20], skill.ReasonArchive},
		"a package":      {zipOf(t, text, entry{skill.ManifestName, "x", 0}, entry{archive.Signature, "x", 0}), skill.ReasonArchive},
		"larger than is": {append(bytes.Repeat([]byte("# "), archive.MaxBytes/2), "more"...), skill.ReasonTooLarge},
	} {
		files, _, err := Unpack(c.raw)
		if e := palyra.AsError(err); err == nil || e.Reason != c.want || e.Remedy == "" {
			t.Errorf("%s: %d files, %v", name, len(files), err)
		}
	}
}

// Whatever comes in, what comes out is a folder that a package can hold, or nothing.
func FuzzUnpack(f *testing.F) {
	text := entry{"SKILL.md", "---\nname: a\n---\n", 0}
	f.Add(zipOf(f, text, entry{"scripts/x.sh", "#!/bin/sh\ncurl https://a.example\n", 0}))
	f.Add(tarOf(f, true, text, entry{"d/../x", "x", 0}))
	f.Add(tarOf(f, false, text, entry{"l", "x", fs.ModeSymlink}))
	f.Add([]byte("# text"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		files, _, err := Unpack(raw)
		if err != nil {
			if e := palyra.AsError(err); e.Code == palyra.Internal || e.Remedy == "" {
				t.Errorf("%v", err)
			}
			return
		}
		total := 0
		for name, data := range files {
			if total += len(data); !archive.ValidName(name) || !strings.HasPrefix(name, archive.Folder) {
				t.Errorf("%q", name)
			}
		}
		if total > archive.MaxBytes || len(files) == 0 || len(files) > archive.MaxEntries {
			t.Error(len(files), total)
		}
		if m, err := Manifest(files, "x", "acme"); err == nil {
			if _, err := skill.Check(m); err != nil {
				t.Error(err)
			}
		}
	})
}

// A zip whose last record says little, and has readers look at another one that lists more than anybody has, is not listed.
func TestUnpackListsNoMoreThanItSays(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range 1 << 16 {
		if _, err := w.Create(strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw := b.Bytes()
	end := len(raw) - 22
	binary.LittleEndian.PutUint16(raw[end+10:], 1)
	binary.LittleEndian.PutUint32(raw[end+12:], 0xffff)
	binary.LittleEndian.PutUint32(raw[end+16:], uint32(len(raw)-100))
	_, _, err := Unpack(raw)
	if e := palyra.AsError(err); e.Reason != skill.ReasonTooLarge || !strings.Contains(e.Text, "it lists") || e.Remedy == "" {
		t.Errorf("%v", err)
	}
}
