// Package archive writes and reads packages of skills: NAME-VERSION.skill, a zip that has one form.
//
// Words: an entry is a file of the package; its signature is a DSSE envelope over an in-toto statement that names the
// digest of every other entry.
//
// Promises. Equal files give equal bytes: entries are sorted, not compressed, and have no times, owners or extra fields. What
// Open accepts is byte for byte what Pack would write of its entries, so a package has no byte that is not looked at; there is
// nothing in it that is larger than it seems, and no name that leads elsewhere on any system. A package that Verify accepts
// was signed by that key, with all of its entries and no other. Sizes and numbers are bounded before anything is read.
package archive

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/skill"
)

// The entries that have a meaning, beside the manifest and modules.
const (
	Readme     = "README.md"
	License    = "LICENSE"
	SBOM       = "sbom.cdx.json"
	Provenance = "provenance.json"
	Signature  = "SIGNATURE"
	Folder     = "folder/" // begins the entries of a SKILL.md folder
	Text       = Folder + "SKILL.md"
)

// The limits of packages.
const (
	MaxBytes   = skill.MaxPackage
	MaxEntries = 256
	MaxModule  = 16 << 20
	maxOther   = 4 << 20 // of an entry that is no module
	maxName    = 250
)

// Package is a package as it was read.
type Package struct {
	Manifest skill.Manifest
	Files    map[string][]byte // SIGNATURE among them, where there is one
	Digest   palyra.Digest     // of the whole file
	Bytes    int64
}

// FileName is the name of a package's file.
func FileName(m skill.Manifest) string { return m.ID + "-" + m.Version + ".skill" }

func refuse(reason palyra.Reason, format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, reason, "the package is refused: %s", fmt.Sprintf(format, args...)).
		WithRemedy("nothing was installed; have its publisher make it with 'palyra skills pack', and send it again")
}

// Pack makes a package of files. The manifest is among them, and says what else has to be.
func Pack(files map[string][]byte) ([]byte, error) {
	if _, err := check(files); err != nil {
		return nil, err
	}
	raw := write(files)
	if len(raw) > MaxBytes {
		return nil, refuse(skill.ReasonTooLarge, "it has %d bytes, at most %d", len(raw), MaxBytes)
	}
	return raw, nil
}

// Open reads a package. Its signature is not looked at: Verify does.
func Open(raw []byte) (*Package, error) {
	files, err := read(raw)
	if err != nil {
		return nil, err
	}
	m, err := check(files)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(write(files), raw) {
		return nil, refuse(skill.ReasonArchive, "it is not in its one form: bytes were added, changed or put in another order")
	}
	return &Package{Manifest: m, Files: files, Digest: palyra.SumBytes(raw), Bytes: int64(len(raw))}, nil
}

// read lists the entries of a zip, and refuses what no package has, by name.
func read(raw []byte) (map[string][]byte, error) {
	if err := checkEnd(raw); err != nil {
		return nil, err
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, refuse(skill.ReasonArchive, "it is not a zip file, or a damaged one")
	}
	files, folded, total := map[string][]byte{}, map[string]string{}, int64(0)
	for _, f := range z.File {
		if err := checkEntry(f, files, folded); err != nil {
			return nil, err
		}
		if total += int64(f.UncompressedSize64); total > MaxBytes {
			return nil, refuse(skill.ReasonTooLarge, "its entries have more than %d bytes together", MaxBytes)
		}
		at, err := f.DataOffset()
		if end := at + int64(f.UncompressedSize64); err != nil || at < 0 || end > int64(len(raw)) {
			return nil, refuse(skill.ReasonArchive, "the entry %q is cut off", f.Name)
		}
		data := bytes.Clone(raw[at : at+int64(f.UncompressedSize64)])
		if crc32.ChecksumIEEE(data) != f.CRC32 {
			return nil, refuse(skill.ReasonArchive, "the entry %q is damaged", f.Name)
		}
		files[f.Name] = data
	}
	return files, nil
}

// endSize is the size of the record at the end of a zip, without a comment.
const endSize = 22

// checkEnd looks at the record at the end, so that nobody reads a directory of any length.
func checkEnd(raw []byte) error {
	if len(raw) > MaxBytes {
		return refuse(skill.ReasonTooLarge, "it has %d bytes, at most %d", len(raw), MaxBytes)
	}
	if len(raw) < endSize || binary.LittleEndian.Uint32(raw[len(raw)-endSize:]) != 0x06054b50 {
		return refuse(skill.ReasonArchive, "it is not a zip file, is cut off, or something was put behind it")
	}
	end := raw[len(raw)-endSize:]
	entries, size := binary.LittleEndian.Uint16(end[10:]), binary.LittleEndian.Uint32(end[12:])
	if entries > MaxEntries || size > MaxEntries*(46+2*maxName) {
		return refuse(skill.ReasonTooLarge, "it has %d entries, at most %d", entries, MaxEntries)
	}
	if at := binary.LittleEndian.Uint32(end[16:]); int64(at)+int64(size)+endSize != int64(len(raw)) {
		return refuse(skill.ReasonArchive, "it is cut off, or something was put in front of it")
	}
	return nil
}

// checkEntry refuses an entry by what its header says, before its content is looked at.
func checkEntry(f *zip.File, files map[string][]byte, folded map[string]string) error {
	switch {
	case !ValidName(f.Name):
		return refuse(skill.ReasonName, "the name %q of an entry is none that a package has", palyra.Clip(f.Name, 80))
	case f.Mode()&fs.ModeType != 0:
		return refuse(skill.ReasonName, "the entry %q is a link, a directory or a device", f.Name)
	case f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64:
		return refuse(skill.ReasonCompress, "the entry %q is compressed: it says that it has %d bytes in %d", f.Name, f.UncompressedSize64,
			f.CompressedSize64)
	case f.UncompressedSize64 > uint64(most(f.Name)):
		return refuse(skill.ReasonTooLarge, "the entry %q has %d bytes, at most %d", f.Name, f.UncompressedSize64, most(f.Name))
	}
	if _, again := files[f.Name]; again {
		return refuse(skill.ReasonName, "the entry %q is there twice", f.Name)
	}
	return clash(folded, f.Name)
}

// most is the largest size of an entry.
func most(name string) int {
	if isModule(name) {
		return MaxModule
	}
	return maxOther
}

func isModule(name string) bool {
	return strings.HasSuffix(name, ".wasm") && !strings.Contains(name, "/")
}

// ValidName reports whether an entry of a package can have the name.
func ValidName(name string) bool {
	switch name {
	case skill.ManifestName, Readme, License, SBOM, Provenance, Signature:
		return true
	}
	if len(name) > maxName || !skill.ValidPath(name) {
		return false
	}
	return isModule(name) || strings.HasPrefix(name, Folder)
}

// clash refuses two names that some system takes for one, or of which one would be a directory and a file.
func clash(folded map[string]string, name string) error {
	low := strings.ToLower(name)
	if other, taken := folded[low]; taken {
		return refuse(skill.ReasonName, "the entries %q and %q are one file on some systems", strings.TrimSuffix(other, "/"), name)
	}
	folded[low] = name
	for dir := low; strings.Contains(dir, "/"); {
		dir = dir[:strings.LastIndexByte(dir, '/')]
		if other, taken := folded[dir]; taken && !strings.HasSuffix(other, "/") {
			return refuse(skill.ReasonName, "the entry %q would be a file and a directory", other)
		}
		folded[dir] = dir + "/"
	}
	return nil
}

// check refuses files that make no package, and returns their manifest.
func check(files map[string][]byte) (skill.Manifest, error) {
	folded := map[string]string{}
	if len(files) > MaxEntries {
		return skill.Manifest{}, refuse(skill.ReasonTooLarge, "it has %d entries, at most %d", len(files), MaxEntries)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case !ValidName(name):
			return skill.Manifest{}, refuse(skill.ReasonName, "%q is no name for an entry", palyra.Clip(name, 80))
		case len(files[name]) > most(name):
			return skill.Manifest{}, refuse(skill.ReasonTooLarge, "the entry %q has %d bytes, at most %d", name, len(files[name]), most(name))
		}
		if err := clash(folded, name); err != nil {
			return skill.Manifest{}, err
		}
	}
	raw, ok := files[skill.ManifestName]
	if !ok {
		return skill.Manifest{}, refuse(skill.ReasonManifest, "it has no %s", skill.ManifestName)
	}
	m, err := skill.Parse(raw)
	if err != nil {
		return skill.Manifest{}, err
	}
	return m, checkContent(m, files)
}

// checkContent holds what the manifest names against what is there.
func checkContent(m skill.Manifest, files map[string][]byte) error {
	used := map[string]bool{}
	for _, t := range m.Tools {
		used[t.Module] = true
		if module, ok := files[t.Module]; !ok || !bytes.HasPrefix(module, []byte("\x00asm")) {
			return refuse(skill.ReasonManifest, "the tool %s is the module %s, which is not there or not a WASM module", t.Name, t.Module)
		}
	}
	for name := range files {
		switch {
		case isModule(name) && !used[name]:
			return refuse(skill.ReasonManifest, "no tool is the module %s", name)
		case strings.HasPrefix(name, Folder) && m.Folder == nil:
			return refuse(skill.ReasonManifest, "it has a folder, and the manifest says nothing of it: [folder]")
		}
	}
	if m.Folder == nil {
		return nil
	}
	if _, ok := files[Text]; !ok {
		return refuse(skill.ReasonManifest, "its folder has no SKILL.md")
	}
	for _, s := range m.Folder.Scripts {
		if _, ok := files[Folder+s]; !ok {
			return refuse(skill.ReasonManifest, "the script %s is not in its folder", s)
		}
	}
	return nil
}

// Names are the names of all entries, in order.
func (p *Package) Names() []string { return slices.Sorted(maps.Keys(p.Files)) }
