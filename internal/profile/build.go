package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/seal"
	"palyra/internal/subpath"
)

// builder puts together the meaning of a chain of profiles in a workspace.
type builder struct {
	config  Config
	ws      palyra.WorkspaceRef
	out     Resolved
	env     map[string]string
	unseal  []string
	git     bool
	homeDir string // once it is known
}

// defaultSeals are in order, so that hardly anything is left to sort for each plan.
var defaultSeals = sync.OnceValue(func() []string { return slices.Sorted(slices.Values(seal.Default)) })

// build takes the profiles in; later ones include the earlier ones and win over them.
func (b *builder) build(list []*definition) error {
	b.out.Seals = slices.Clone(defaultSeals())
	for _, d := range list {
		for _, step := range []func(*definition) error{b.mounts, b.caches, b.variables, b.path, b.files} {
			if err := step(d); err != nil {
				return err
			}
		}
		f := d.file
		b.out.Egress = append(b.out.Egress, f.Egress...)
		b.out.Seals = append(b.out.Seals, f.Seals...)
		b.unseal = append(b.unseal, f.Unseal...)
		b.out.UnixSockets = b.out.UnixSockets || f.UnixSockets
		b.out.Asks = b.out.Asks || f.Asks
		b.git = b.git || f.GitConfig
	}
	return nil
}

// finish brings everything into one order.
func (b *builder) finish() error {
	if b.git {
		b.gitConfig()
	}
	for _, name := range b.unseal {
		if !slices.Contains(b.out.Seals, name) {
			return badProfile("the profile %s unseals %q, which is not sealed", b.out.Name, name)
		}
		b.out.Seals = slices.DeleteFunc(b.out.Seals, func(s string) bool { return s == name })
	}
	if len(b.unseal) > 0 {
		b.out.Notes = append(b.out.Notes, "may change what is sealed otherwise: "+strings.Join(b.unseal, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(b.env)) {
		b.out.Env = append(b.out.Env, palyra.EnvVar{Name: name, Value: b.env[name], Digest: palyra.SumBytes([]byte(b.env[name]))})
	}
	for _, list := range []*[]string{&b.out.Seals, &b.out.Egress} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(b.out.Mounts, func(x, y palyra.Mount) int { return strings.Compare(x.Target, y.Target) })
	slices.SortFunc(b.out.Files, func(x, y palyra.RoomFile) int { return strings.Compare(x.Target, y.Target) })
	return nil
}

// home is that of the workspace's owner.
func (b *builder) home() (string, error) {
	if b.homeDir != "" {
		return b.homeDir, nil
	}
	dir, err := b.config.Home(b.ws.Owner)
	if err == nil && !isCleanAbs(dir) {
		err = errors.New("it is no whole path")
	}
	if err != nil {
		return "", palyra.Errorf(palyra.Unavailable, palyra.ReasonBadProfile,
			"the home directory of uid %d cannot be told, which the profile %s needs", b.ws.Owner, b.out.Name).
			WithRemedy("call with profile none").WithCause(err)
	}
	b.homeDir = dir
	return dir, nil
}

// expand puts the owner's home for a tilde.
func (b *builder) expand(p string) (string, error) {
	rest, ok := strings.CutPrefix(p, "~/")
	if !ok {
		return p, nil
	}
	home, err := b.home()
	return path.Join(home, rest), err
}

func (b *builder) mounts(d *definition) error {
	for _, m := range d.file.Mounts {
		source, err := b.expand(m.Source)
		if err != nil {
			return err
		}
		target := source
		if m.Target != "" {
			if target, err = b.expand(m.Target); err != nil {
				return err
			}
		}
		real, err := filepath.EvalSymlinks(source)
		switch {
		case m.Optional && errors.Is(err, fs.ErrNotExist):
			b.out.Notes = append(b.out.Notes, source+" does not exist and is left out")
			continue
		case err != nil:
			return badProfile("the profile %s mounts %s, which cannot be found", d.name, source).
				WithRemedy("correct %s, or run 'palyra setup' again", d.source).WithCause(err)
		}
		if err := b.mayMount(d, source, real, target); err != nil {
			return err
		}
		if err := b.mount(d, palyra.Mount{Source: real, Target: target}); err != nil {
			return err
		}
	}
	return nil
}

// mount adds a mount; the same twice is one.
func (b *builder) mount(d *definition, m palyra.Mount) error {
	for _, have := range b.out.Mounts {
		if have == m {
			return nil
		}
		if have.Target == m.Target {
			return badProfile("the profile %s mounts something at %s, where %s lies already", d.name, m.Target, have.Source)
		}
	}
	b.out.Mounts = append(b.out.Mounts, m)
	return nil
}

// caches names the directories of caches; the sandbox makes them when they are
// first needed, because planning changes nothing.
func (b *builder) caches(d *definition) error {
	for _, c := range d.file.Caches {
		target := c.Target
		if target == "" {
			target = path.Join(cell.RoomHome, ".cache", c.Name)
		}
		if c.Env != "" {
			b.env[c.Env] = target
		}
		if b.config.Caches == "" {
			continue
		}
		dir := filepath.Join(b.config.Caches, cacheKey(b.ws), c.Name)
		if err := b.mount(d, palyra.Mount{Source: dir, Target: target, Writable: true}); err != nil {
			return err
		}
	}
	return nil
}

// cacheKey names the caches of a workspace and its owner.
func cacheKey(ws palyra.WorkspaceRef) string {
	sum := sha256.Sum256([]byte("palyra cache v1\x00" + strconv.FormatInt(ws.Owner, 10) + "\x00" + ws.Path))
	return hex.EncodeToString(sum[:16])
}

func (b *builder) variables(d *definition) error {
	for name, value := range d.file.Env {
		v, err := b.expandAll(value)
		if err != nil {
			return err
		}
		b.env[name] = v
	}
	return nil
}

// expandAll puts the owner's home for a tilde at the beginning and after file://.
func (b *builder) expandAll(value string) (string, error) {
	const url = "file://~/"
	if i := strings.Index(value, url); i >= 0 {
		home, err := b.home()
		return value[:i] + "file://" + home + "/" + value[i+len(url):], err
	}
	return b.expand(value)
}

// path takes the directories that exist, those of the including profile first.
func (b *builder) path(d *definition) error {
	var dirs []string
	for _, p := range d.file.Path {
		dir, err := b.expand(p)
		if err != nil {
			return err
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() && !slices.Contains(b.out.Path, dir) {
			dirs = append(dirs, dir)
		}
	}
	b.out.Path = append(dirs, b.out.Path...)
	return nil
}

func (b *builder) files(d *definition) error {
	for _, f := range d.file.Files {
		if subpath.Within(b.ws.Path, f.Target) {
			return badProfile("the profile %s lays the file %s into the workspace", d.name, f.Target)
		}
		b.addFile(palyra.RoomFile{Target: f.Target, Text: f.Text})
	}
	return nil
}

// addFile adds a file; the later one wins.
func (b *builder) addFile(f palyra.RoomFile) {
	b.out.Files = slices.DeleteFunc(b.out.Files, func(x palyra.RoomFile) bool { return x.Target == f.Target })
	b.out.Files = append(b.out.Files, f)
}
