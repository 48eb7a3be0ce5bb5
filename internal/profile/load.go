package profile

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"palyra"
)

//go:embed shipped/*.toml
var shippedFiles embed.FS

const (
	suffix  = ".toml"
	shipped = "shipped"
	maxOwn  = 128 // files of the operator's
)

func loadShipped() (map[string]*definition, error) {
	entries, err := shippedFiles.ReadDir(shipped)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	out := map[string]*definition{}
	for _, e := range entries {
		raw, err := shippedFiles.ReadFile(shipped + "/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
		name := strings.TrimSuffix(e.Name(), suffix)
		if out[name], err = parse(name, shipped, raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// definitions returns every profile. The operator's are read again when one of them changed.
func (s *Set) definitions() (map[string]*definition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, mark, err := s.listOwnFiles()
	if err != nil {
		return nil, err
	}
	if s.known == nil && s.err == nil || mark != s.mark {
		s.known, s.err = s.load(names)
		s.mark = mark
	}
	return s.known, s.err
}

// listOwnFiles lists the operator's files, with a mark that changes when one of them does.
func (s *Set) listOwnFiles() ([]string, string, error) {
	if s.config.Dir == "" {
		return nil, "none", nil
	}
	entries, err := os.ReadDir(s.config.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "none", nil
	}
	if err != nil {
		return nil, "", badProfile("the directory of profiles %s cannot be read", s.config.Dir).WithCause(err)
	}
	var names []string
	var mark strings.Builder
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if names = append(names, e.Name()); len(names) > maxOwn {
			return nil, "", badProfile("there are more than %d profiles in %s", maxOwn, s.config.Dir)
		}
		info, err := e.Info()
		if err != nil {
			return nil, "", badProfile("the profile %s cannot be read", filepath.Join(s.config.Dir, e.Name())).WithCause(err)
		}
		fmt.Fprintf(&mark, "%s %d %d %v %s\n", e.Name(), info.Size(), info.ModTime().UnixNano(), info.Mode(), fileIdentity(info))
	}
	return names, mark.String(), nil
}

func (s *Set) load(names []string) (map[string]*definition, error) {
	all := maps.Clone(s.shipped)
	if len(names) == 0 {
		return all, nil
	}
	if why := unsafeToTrust(s.config.Dir); why != "" {
		return nil, notOurs(s.config.Dir, why)
	}
	for _, n := range names {
		path := filepath.Join(s.config.Dir, n)
		raw, err := read(path)
		if err != nil {
			return nil, err
		}
		d, err := parse(strings.TrimSuffix(n, suffix), path, raw)
		if err != nil {
			return nil, err
		}
		d.own = true
		all[d.name] = d
	}
	return all, nil
}

// read reads a file of the operator's: a profile decides what runs may see.
func read(path string) ([]byte, error) {
	if why := unsafeToTrust(path); why != "" {
		return nil, notOurs(path, why)
	}
	f, err := openPlain(path)
	if err != nil {
		return nil, badProfile("the profile %s cannot be read", path).WithCause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, badProfile("the profile %s is not a regular file", path).WithCause(err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, badProfile("the profile %s cannot be read", path).WithCause(err)
	}
	return raw, nil
}

func notOurs(path, why string) error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s %s: profiles decide what sandboxes can see", path, why).
		WithRemedy("make it yours alone: chown it, and chmod go-w %s", path)
}
