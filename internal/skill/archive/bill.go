package archive

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/skill"
)

// Library is something that a module was built from.
type Library struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

// Build is how the modules of a package came to be, as far as whoever packed it knows.
type Build struct {
	Tool      string            `json:"tool"`      // what built it, with its version
	Commands  [][]string        `json:"commands"`  // that were run
	Sources   map[string]string `json:"sources"`   // digests of source files, by their paths
	Modules   map[string]string `json:"modules"`   // digests of what came out
	Libraries []Library         `json:"libraries"` // that went in
}

type component struct {
	Type    string     `json:"type"`
	Name    string     `json:"name"`
	Version string     `json:"version,omitempty"`
	PURL    string     `json:"purl,omitempty"`
	Hashes  []hashed   `json:"hashes,omitempty"`
	License []licensed `json:"licenses,omitempty"`
}

type hashed struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type licensed struct {
	Expression string `json:"expression"`
}

// bill is a software bill of materials, CycloneDX 1.6. It has no time and no random number: equal packages have equal ones.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

// BillOf is the bill of materials of files, with the libraries that went into the modules.
func BillOf(m skill.Manifest, files map[string][]byte, b Build) ([]byte, error) {
	of := bill{Format: "CycloneDX", Spec: "1.6", Version: 1}
	of.Metadata.Component = component{Type: "application", Name: m.ID, Version: m.Version}
	if m.License != "" {
		of.Metadata.Component.License = []licensed{{m.License}}
	}
	of.Components = []component{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != SBOM && name != Provenance && name != Signature {
			of.Components = append(of.Components, component{Type: "file", Name: name, Hashes: []hashed{{"SHA-256", hexOf(files[name])}}})
		}
	}
	for _, l := range b.Libraries {
		of.Components = append(of.Components, component{Type: "library", Name: l.Name, Version: l.Version, PURL: l.PURL})
	}
	return indented(of)
}

func hexOf(b []byte) string { return strings.TrimPrefix(string(palyra.SumBytes(b)), "sha256:") }

// provenance is an in-toto statement with the predicate of SLSA's build provenance.
type provenance struct {
	Type          string         `json:"_type"`
	Subject       []subject      `json:"subject"`
	PredicateType string         `json:"predicateType"`
	Predicate     map[string]any `json:"predicate"`
}

// ProvenanceOf says how the modules came to be. It is the word of whoever packed it, under their signature.
func ProvenanceOf(m skill.Manifest, files map[string][]byte, b Build) ([]byte, error) {
	p := provenance{Type: palyra.StatementType, PredicateType: "https://slsa.dev/provenance/v1", Subject: []subject{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if isModule(name) {
			p.Subject = append(p.Subject, subject{Name: name, Digest: digestSet{SHA256: hexOf(files[name])}})
		}
	}
	sources := []subject{}
	for _, name := range slices.Sorted(maps.Keys(b.Sources)) {
		sources = append(sources, subject{Name: name, Digest: digestSet{SHA256: b.Sources[name]}})
	}
	commands := b.Commands
	if commands == nil {
		commands = [][]string{}
	}
	p.Predicate = map[string]any{
		"buildDefinition": map[string]any{
			"buildType":            "https://palyra.dev/skill/build/v1",
			"externalParameters":   map[string]any{"skill": m.ID, "version": m.Version, "commands": commands},
			"resolvedDependencies": sources,
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": "https://palyra.dev/skill/builder/local", "version": map[string]any{
			"tool": b.Tool,
		}}},
	}
	return indented(p)
}

func indented(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}
