// Package project reads the directory in which a skill is made, and makes packages of it.
//
// It promises that nothing but what a package has goes in: the manifest, README.md and LICENSE, the modules that the
// manifest names, and the files below folder/. Links are refused, and hidden files and caches are left out and said.
package project

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
)

// BuildFile says how the modules were built. It is not packed itself: the bill of materials and the provenance are made of it.
const BuildFile = "build.json"

// Source is the directory that modules are built from.
const Source = "src"

// Project is a directory as it is now.
type Project struct {
	Manifest skill.Manifest
	Files    map[string][]byte
	Build    archive.Build
	Left     []string // what was left out
}

// Manifest reads the manifest of a directory.
func Manifest(root *os.Root) (skill.Manifest, []byte, error) {
	raw, err := readFile(root, skill.ManifestName, skill.MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return skill.Manifest{}, nil, palyra.Errorf(palyra.NotFound, skill.ReasonManifest, "there is no %s in this directory",
			skill.ManifestName).
			WithRemedy("run it in the directory of a skill, or name that; 'palyra skills init NAME' makes one")
	}
	if err != nil {
		return skill.Manifest{}, nil, err
	}
	m, err := skill.Parse(raw)
	return m, raw, err
}

// Read reads all that goes into the package of a directory.
func Read(root *os.Root) (*Project, error) {
	m, raw, err := Manifest(root)
	if err != nil {
		return nil, err
	}
	p := &Project{Manifest: m, Files: map[string][]byte{skill.ManifestName: raw}}
	for _, name := range []string{archive.Readme, archive.License} {
		if err := p.take(root, name, false); err != nil {
			return nil, err
		}
	}
	for _, t := range m.Tools {
		if err := p.take(root, t.Module, true); err != nil {
			return nil, err
		}
	}
	if m.Folder != nil {
		if p.Left, err = Folder(root, strings.TrimSuffix(archive.Folder, "/"), p.Files); err != nil {
			return nil, err
		}
	}
	return p, p.readBuild(root)
}

// take reads one file; one that need not be there may be missing.
func (p *Project) take(root *os.Root, name string, needed bool) error {
	raw, err := readFile(root, name, archive.MaxModule)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !needed:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return palyra.Errorf(palyra.NotFound, skill.ReasonManifest, "there is no %s, which the manifest names", name).
			WithRemedy("build it: 'palyra skills build'")
	case err != nil:
		return err
	}
	p.Files[name] = raw
	return nil
}

// readBuild reads how the modules were built. Those that were changed since are no longer what it says.
func (p *Project) readBuild(root *os.Root) error {
	raw, err := readFile(root, BuildFile, 4<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &p.Build); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s cannot be read", BuildFile).
			WithRemedy("run 'palyra skills build' again")
	}
	for name, digest := range p.Build.Modules {
		if module, ok := p.Files[name]; ok && string(palyra.SumBytes(module)) != digest {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonInputChanged, "%s is not what was built: it was changed since", name).
				WithRemedy("run 'palyra skills build' again, or remove %s to pack it as it is", BuildFile)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Build.Sources)) {
		text, err := readFile(root, name, archive.MaxModule)
		if err == nil && strings.TrimPrefix(string(palyra.SumBytes(text)), "sha256:") != p.Build.Sources[name] {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonInputChanged, "%s was changed since the modules were built", palyra.Clip(name, 200)).
				WithRemedy("run 'palyra skills build' again")
		}
	}
	return nil
}

// Pack makes the package.
func (p *Project) Pack() ([]byte, error) {
	sbom, err := archive.BillOf(p.Manifest, p.Files, p.Build)
	if err != nil {
		return nil, err
	}
	provenance, err := archive.ProvenanceOf(p.Manifest, p.Files, p.Build)
	if err != nil {
		return nil, err
	}
	p.Files[archive.SBOM], p.Files[archive.Provenance] = sbom, provenance
	return archive.Pack(p.Files)
}

// Folder reads the files below a directory of root into files, under folder/, and returns what was left out.
func Folder(root *os.Root, dir string, files map[string][]byte) (left []string, err error) {
	total := 0
	err = fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return badFolder("%q cannot be read", palyra.Clip(name, 200))
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		if dir == "." {
			rel = name
		}
		switch {
		case rel == "" || rel == ".":
			return nil
		case archive.Skipped(path.Base(name)):
			left = append(left, rel)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return badFolder("%q is a link or no file: it could lead out of the folder", palyra.Clip(rel, 200))
		case !archive.ValidName(archive.Folder + rel):
			return badFolder("%q is no name for a file of a package", palyra.Clip(rel, 200))
		case len(files) > archive.MaxEntries:
			return badFolder("it has more than %d files", archive.MaxEntries)
		}
		raw, err := readFile(root, name, archive.MaxBytes)
		if err != nil {
			return err
		}
		if total += len(raw); total > archive.MaxBytes {
			return badFolder("it has more than %d bytes", archive.MaxBytes)
		}
		files[archive.Folder+rel] = raw
		return nil
	})
	return left, err
}

func badFolder(format string, args ...any) error {
	return palyra.Errorf(palyra.Invalid, skill.ReasonArchive, "the folder is refused: "+format, args...).
		WithRemedy("correct it and try again; nothing was packed or installed")
}

// readFile reads a regular file of at most so many bytes.
func readFile(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, badFolder("%q is no ordinary file", palyra.Clip(name, 200))
	}
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = palyra.Errorf(palyra.Invalid, skill.ReasonTooLarge, "%q has more than %d bytes", palyra.Clip(name, 200), most).
			WithRemedy("a package holds what a tool needs to run, and nothing large beside it")
	}
	return raw, err
}
