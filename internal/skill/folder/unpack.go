package folder

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/subpath"
)

// The limits of archives that people publish, beside those of packages.
const (
	maxListed    = 2048    // entries, with directories and what is left out
	maxDirectory = 1 << 20 // bytes of the list at the end of a zip
	maxRatio     = 200     // of what comes out to what went in, where it is more than a little
	fewBytes     = 4 << 20
)

// textName is how the text of a folder is called there.
var textName = path.Base(archive.Text)

// Unpack reads a folder that somebody published as one file: a zip (.zip, .skill), a tar, compressed or not, or a SKILL.md
// alone. Its files are named as in a package; left is what was left out. An archive may hold the folder itself or what is in
// it. Nothing is written anywhere.
func Unpack(raw []byte) (files map[string][]byte, left []string, err error) {
	if len(raw) > archive.MaxBytes {
		return nil, nil, tooLarge("it has more than %d bytes", archive.MaxBytes)
	}
	all := &listing{files: map[string][]byte{}, most: len(raw) * maxRatio}
	switch {
	case bytes.HasPrefix(raw, []byte("PK")):
		err = all.zip(raw)
	case bytes.HasPrefix(raw, []byte{0x1f, 0x8b}):
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(raw)); err != nil {
			return nil, nil, refuse("it is a damaged gzip file")
		}
		err = all.tar(z)
	case len(raw) > 262 && string(raw[257:262]) == "ustar":
		err = all.tar(bytes.NewReader(raw))
	case utf8.Valid(raw) && bytes.IndexByte(raw, 0) < 0 && len(bytes.TrimSpace(raw)) > 0:
		return map[string][]byte{archive.Text: raw}, nil, nil
	default:
		return nil, nil, refuse("it is neither a zip nor a tar file, nor the text of a SKILL.md")
	}
	if err != nil {
		return nil, nil, err
	}
	return all.folder()
}

func tooLarge(format string, args ...any) error {
	e := palyra.AsError(refuse(format, args...))
	e.Reason = skill.ReasonTooLarge
	return e
}

// listing is an archive as it is read.
type listing struct {
	files map[string][]byte
	left  []string
	seen  int
	bytes int
	most  int // bytes that may come out of it, beyond a few
}

// zip reads a zip. The list at its end is bounded before it is read.
func (l *listing) zip(raw []byte) error {
	end := bytes.LastIndex(raw, []byte("PK\x05\x06"))
	if end < 0 || len(raw)-end < 22 {
		return refuse("it is a damaged zip file, or is cut off")
	}
	begins := int64(binary.LittleEndian.Uint32(raw[end+16:]))
	entries, size := binary.LittleEndian.Uint16(raw[end+10:]), binary.LittleEndian.Uint32(raw[end+12:])
	elsewhere := size == math.MaxUint16 || size == math.MaxUint32 // then readers look for a list of any length in another record
	if elsewhere || entries > maxListed || int64(len(raw))-begins > maxDirectory || begins > int64(len(raw)) {
		return tooLarge("it lists %d files, at most %d, or says so at too much length", entries, maxListed)
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return refuse("it is a damaged zip file")
	}
	for _, f := range z.File {
		if f.Flags&1 != 0 {
			return refuse("%q is encrypted", palyra.Clip(f.Name, 80))
		}
		take, err := l.take(f.Name, f.Mode(), f.UncompressedSize64)
		if err != nil {
			return err
		}
		if !take {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return refuse("%q cannot be unpacked", palyra.Clip(f.Name, 80))
		}
		err = l.read(f.Name, r)
		_ = r.Close() // it was only read
		if err != nil {
			return err
		}
	}
	return nil
}

// tar reads a tar.
func (l *listing) tar(from io.Reader) error {
	whole := &io.LimitedReader{R: from, N: archive.MaxBytes + maxListed*(4<<10)}
	t := tar.NewReader(whole)
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case whole.N <= 0:
			return tooLarge("it has more than %d bytes when it is unpacked", archive.MaxBytes)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return refuse("it is a damaged tar file, or is cut off")
		case h.Typeflag == tar.TypeXGlobalHeader:
			continue
		}
		mode := h.FileInfo().Mode()
		if h.Typeflag == tar.TypeLink {
			mode |= fs.ModeSymlink // one that leads to a file by another name
		}
		take, err := l.take(h.Name, mode, uint64(max(h.Size, 0)))
		if err == nil && take {
			err = l.read(h.Name, t)
		}
		if err != nil {
			return err
		}
	}
}

// take looks at an entry by what is said of it; false: it is a directory, or left out.
func (l *listing) take(name string, mode fs.FileMode, size uint64) (bool, error) {
	shown := palyra.Clip(name, 80)
	if l.seen++; l.seen > maxListed {
		return false, tooLarge("it has more than %d entries", maxListed)
	}
	plain := plainName(name)
	switch {
	case plain == "" || plain == ".":
		return false, nil
	case !fs.ValidPath(plain) || strings.Contains(plain, `\`):
		return false, badName("the name %q leads elsewhere, or could be read as one that does", shown)
	case mode.IsDir():
		return false, nil
	case slices.ContainsFunc(strings.Split(plain, "/"), archive.Skipped):
		l.left = append(l.left, plain)
		return false, nil
	case !mode.IsRegular():
		return false, refuse("%q is a link or no file: it could lead out of the folder", shown)
	case !skill.ValidPath(plain):
		return false, badName("%q is no name for a file of a package", shown)
	case size > archive.MaxBytes || l.bytes+int(size) > archive.MaxBytes:
		return false, tooLarge("it has more than %d bytes when it is unpacked", archive.MaxBytes)
	case l.files[plain] != nil:
		return false, badName("%q is there twice", shown)
	}
	return true, nil
}

// plainName is the name of an entry without what only says where it lies.
func plainName(name string) string { return strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/") }

func badName(format string, args ...any) error {
	e := palyra.AsError(refuse(format, args...))
	e.Reason = skill.ReasonName
	return e
}

// read takes the content of an entry, however long it said that it is.
func (l *listing) read(name string, from io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(from, int64(archive.MaxBytes-l.bytes)+1))
	l.bytes += len(data)
	switch {
	case l.bytes > archive.MaxBytes:
		return tooLarge("it has more than %d bytes when it is unpacked", archive.MaxBytes)
	case l.bytes > max(fewBytes, l.most):
		e := palyra.AsError(refuse("more than %d times as much comes out of it as it is large", maxRatio))
		e.Reason = skill.ReasonCompress
		return e
	case err != nil:
		return refuse("%q is damaged", palyra.Clip(name, 80))
	}
	l.files[plainName(name)] = append([]byte{}, data...)
	return nil
}

// folder is the folder in an archive: where its SKILL.md is that lies highest. What lies beside it is left out.
func (l *listing) folder() (map[string][]byte, []string, error) {
	if l.files[skill.ManifestName] != nil && l.files[archive.Signature] != nil {
		return nil, nil, palyra.AsError(refuse("it is a signed package already")).WithRemedy("install it: 'palyra skills install FILE'")
	}
	top, depth, several := "", -1, false
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		if !strings.EqualFold(path.Base(name), textName) {
			continue
		}
		switch n := strings.Count(name, "/"); {
		case depth < 0 || n < depth:
			top, depth, several = path.Dir(name), n, false
		case n == depth:
			several = true
		}
	}
	switch {
	case depth < 0:
		return nil, nil, refuse("it has no %s", textName)
	case several:
		return nil, nil, palyra.AsError(refuse("it has several folders with a %s", textName)).WithRemedy("unpack it, and import one of them")
	}
	files, left := map[string][]byte{}, l.left
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		rel, below := subpath.Rel(top, name)
		if !below {
			left = append(left, name)
			continue
		}
		files[archive.Folder+rel] = l.files[name]
	}
	if len(files) > archive.MaxEntries {
		return nil, nil, tooLarge("it has %d files, at most %d", len(files), archive.MaxEntries)
	}
	return files, left, nil
}

// NameOf is the name of a folder by that of the file that it came in.
func NameOf(file string) string {
	name := path.Base(file)
	for _, end := range []string{".gz", ".tgz", ".tar", ".zip", ".skill", ".md"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}
