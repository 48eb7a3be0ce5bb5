package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// most is how many keys are kept, those that were of use last: some checkouts' worth on all targets.
const most = 30_000

// store is the packages that nothing was wrong with, each as a key of all that it was judged by. What was found wrong has
// no place in it. A file that is lost or damaged means that packages are judged again.
type store struct {
	path string // none: nothing is kept
	keys map[string]bool
	used []string
}

func openStore(path string) *store {
	s := &store{path: path, keys: map[string]bool{}}
	if path == "" {
		return s
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return s
	}
	for line := range strings.Lines(string(text)) {
		if key, whole := strings.CutSuffix(line, "\n"); whole && len(key) == 2*sha256.Size {
			s.keys[key] = true
		}
	}
	return s
}

// has tells whether nothing is wrong with what has the key.
func (s *store) has(key string) bool {
	if key == "" || !s.keys[key] {
		return false
	}
	s.used = append(s.used, key)
	return true
}

func (s *store) add(keys []string) {
	for _, k := range keys {
		s.keys[k] = true
	}
	s.used = append(s.used, keys...)
}

// save writes what was of use before what was not.
func (s *store) save() error {
	if s.path == "" {
		return nil
	}
	of := map[string]bool{}
	for _, k := range s.used {
		of[k] = true
	}
	all := slices.Collect(maps.Keys(of))
	for k := range s.keys {
		if !of[k] {
			all = append(all, k)
		}
	}
	all = all[:min(len(all), most)]
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(all, "\n") + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// world is a digest of what every package of dir is judged by: this program, the go command with its settings, and the
// versions of the modules, which are what they are.
func world(dir string, env []string) (string, error) {
	h := sha256.New()
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if err := digestFile(h, "", self); err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := digestFile(h, dir, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	cmd := exec.Command("go", "env", "GOVERSION", "GOROOT", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFLAGS",
		"CGO_ENABLED", "GOWORK", "GOMODCACHE", "GODEBUG", "GOFIPS140")
	cmd.Dir, cmd.Env = dir, env
	said, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	if _, err := h.Write(said); err != nil {
		return "", err
	}
	return string(h.Sum(nil)), nil
}

// digestFile writes of a file where it is in dir and what is in it: another checkout may have the same packages.
func digestFile(w io.Writer, dir, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	_, err = fmt.Fprintf(w, "%q %x\n", strings.TrimPrefix(path, dir), sum)
	return err
}

// keyer gives packages their keys: digests of their files and of the keys of what they import.
type keyer struct {
	dir   string
	world string
	keys  map[string]string // by id
}

// of is "" for a package that cannot be kept, and so for all that import it.
func (k *keyer) of(p *packages.Package) string {
	if key, ok := k.keys[p.ID]; ok {
		return key
	}
	k.keys[p.ID] = "" // packages do not import themselves; one that does is not kept
	if len(p.Errors) > 0 {
		return ""
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %q\n", k.world, p.ID)
	if m := p.Module; m != nil && (m.Main || m.Version == "" || m.Replace != nil) {
		files := slices.Concat(p.GoFiles, p.CompiledGoFiles, p.OtherFiles, p.EmbedFiles, p.IgnoredFiles)
		slices.Sort(files)
		for _, f := range slices.Compact(files) {
			if digestFile(&b, k.dir, f) != nil {
				return ""
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(p.Imports)) {
		key := k.of(p.Imports[path])
		if key == "" {
			return ""
		}
		fmt.Fprintf(&b, "%q %s\n", path, key)
	}
	sum := sha256.Sum256(b.Bytes())
	k.keys[p.ID] = hex.EncodeToString(sum[:])
	return k.keys[p.ID]
}

// list gives the packages of dir on a target, by id, their keys. Nothing is type-checked.
func list(dir string, env []string) (map[string]*packages.Package, map[string]string, error) {
	w, err := world(dir, env)
	if err != nil {
		return nil, nil, err
	}
	roots, err := packages.Load(&packages.Config{Mode: listMode, Dir: dir, Tests: true, Env: env}, "./...")
	if err != nil {
		return nil, nil, err
	}
	k, found, keys := &keyer{dir: dir, world: w, keys: map[string]string{}}, map[string]*packages.Package{}, map[string]string{}
	for _, p := range roots {
		if !generated(p) {
			found[p.ID], keys[p.ID] = p, k.of(p)
		}
	}
	return found, keys, nil
}
