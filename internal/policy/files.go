package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"palyra"
)

// The files of a bundle.
const (
	cedarSuffix  = ".cedar"
	testsDir     = "tests"
	testSuffix   = ".yaml"
	entitiesFile = "entities.json"
)

// maxFileName bounds a file's name: names stand in journals and prompts.
const maxFileName = 64

// Report is the digest and the problems of a bundle's files.
type Report struct {
	Digest   palyra.Digest // empty when there are problems
	Policies int
	Problems Problems
}

// Check makes a bundle of files by name, as they come from somebody who wants to put it into force. A file whose
// name no bundle has is a problem, since its content would have no effect. On any problem there is no bundle.
func Check(files map[string]string) (*Bundle, Report) {
	return CheckWithin(context.Background(), files)
}

// CheckWithin is Check with a ctx that can end it, which is then the problem.
func CheckWithin(ctx context.Context, files map[string]string) (*Bundle, Report) {
	if p := checkFiles(files); len(p) > 0 {
		return nil, Report{Problems: p}
	}
	own := make(map[string]string, len(files)+1)
	maps.Copy(own, files)
	b, err := completeWithin(ctx, own)
	if err != nil {
		var found Problems
		if !errors.As(err, &found) {
			found = Problems{{File: ".", Line: 1, Column: 1, Text: palyra.Clip(err.Error(), 256)}}
		}
		return nil, Report{Problems: found}
	}
	return b, Report{Digest: b.digest, Policies: len(b.rules)}
}

// checkFiles finds what is wrong with files before their content is looked at.
func checkFiles(files map[string]string) Problems {
	var found Problems
	say := func(name, format string, args ...any) {
		found = append(found, Problem{File: palyra.Clip(name, maxFileName), Line: 1, Column: 1, Text: fmt.Sprintf(format, args...)})
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		total += len(text)
		switch {
		case !belongs(name):
			say(name, "a bundle has no such file; it has *.cedar, %s, %s and %s/*%s", schemaFile, entitiesFile, testsDir, testSuffix)
		case len(text) > maxFile:
			say(name, "larger than %d bytes", maxFile)
		case !utf8.ValidString(text):
			say(name, "not valid UTF-8")
		}
		if len(found) >= shown {
			return found
		}
	}
	if len(files) > maxFiles || total > maxBundle {
		say(".", "the bundle is larger than %d files or %d bytes", maxFiles, maxBundle)
	}
	return found
}

// belongs reports whether a name is one of a bundle's files.
func belongs(name string) bool {
	if len(name) > maxFileName || strings.ContainsFunc(name, func(r rune) bool { return r == '\\' || unprintable(r) }) {
		return false
	}
	if name == schemaFile || name == entitiesFile {
		return true
	}
	base, suffix := name, cedarSuffix
	if rest, ok := strings.CutPrefix(name, testsDir+"/"); ok {
		base, suffix = rest, testSuffix
	}
	return len(base) > len(suffix) && strings.HasSuffix(base, suffix) && base[0] != '.' && !strings.Contains(base, "/")
}

// Read returns the bundle's files below the root of fsys by name, within the limits. Other files (a README,
// say) are left alone, unless they look as if they were meant to be read: see stray.
func Read(fsys fs.FS) (map[string]string, error) {
	r := reader{fsys: fsys, files: map[string]string{}}
	if err := r.dir("."); err != nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: cannot be read").
			WithRemedy("give a directory that holds *.cedar files").WithCause(err)
	}
	if err := r.dir(testsDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: %s cannot be read", testsDir).WithCause(err)
	}
	if r.err == nil {
		r.err = strays(fsys)
	}
	return r.files, r.err
}

// reader collects files. err is what is wrong with one of them.
type reader struct {
	fsys  fs.FS
	files map[string]string
	total int
	err   error
}

// dir reads the files of one directory; the error is about the directory.
func (r *reader) dir(dir string) error {
	entries, err := fs.ReadDir(r.fsys, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if dir != "." {
			name = dir + "/" + name
		}
		if r.err == nil && !e.IsDir() && wanted(dir, name) {
			r.err = r.take(name)
		}
	}
	return nil
}

// wanted reports whether a file is looked at. A policy whose name no bundle can have is looked at as well: it
// must not be left out without a word.
func wanted(dir, name string) bool {
	if dir == "." {
		return name == schemaFile || name == entitiesFile || strings.HasSuffix(name, cedarSuffix) && !strings.HasPrefix(name, ".")
	}
	return strings.HasSuffix(name, testSuffix) && !strings.HasPrefix(name, dir+"/.")
}

func (r *reader) take(name string) error {
	if !belongs(name) {
		return bundleError(Problem{
			File: palyra.Clip(name, maxFileName), Line: 1, Column: 1,
			Text: fmt.Sprintf("the name is longer than %d bytes or not printable", maxFileName),
		})
	}
	text, err := readFile(r.fsys, name)
	if err != nil {
		return err
	}
	r.files[name] = text
	r.total += len(text)
	if len(r.files) > maxFiles || r.total > maxBundle {
		return bundleError(Problem{
			File: name, Line: 1, Column: 1,
			Text: fmt.Sprintf("the bundle is larger than %d files or %d bytes", maxFiles, maxBundle),
		})
	}
	return nil
}

func readFile(fsys fs.FS, name string) (string, error) {
	info, err := fs.Stat(fsys, name)
	if err == nil && !info.Mode().IsRegular() { // a pipe would be waited for
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: %s is not a file", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: %s cannot be opened", name).WithCause(err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: %s cannot be read", name).WithCause(err)
	}
	if len(b) > maxFile {
		return "", bundleError(Problem{File: name, Line: 1, Column: 1, Text: fmt.Sprintf("larger than %d bytes", maxFile)})
	}
	if !utf8.Valid(b) {
		return "", bundleError(Problem{File: name, Line: 1, Column: 1, Text: "not valid UTF-8"})
	}
	return string(b), nil
}
