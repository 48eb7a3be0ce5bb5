package policy

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"palyra"
	"palyra/internal/canon"
)

const (
	schemaFile   = "schema.cedarschema"
	bundleDomain = "policy-bundle/v1"
)

// Limits of a bundle.
const (
	maxFiles    = 1024
	maxFile     = 4 << 20
	maxBundle   = 32 << 20
	maxPolicies = 50_000
)

//go:embed default/*.cedar default/schema.cedarschema
var shipped embed.FS

// Bundle is a checked set of policies. It never changes.
type Bundle struct {
	digest  palyra.Digest
	files   map[string]string
	rules   []*rule
	byID    map[cedar.PolicyID]*rule
	index   index
	actions cedar.EntityMap
	valid   *validate.Validator
}

// Default returns the policies that Palyra comes with.
func Default() (*Bundle, error) {
	dir, err := fs.Sub(shipped, "default")
	if err != nil {
		return nil, fmt.Errorf("policy: default: %w", err)
	}
	return Load(dir)
}

// SchemaText returns the schema that policies are written against.
func SchemaText() string {
	b, err := shipped.ReadFile("default/" + schemaFile)
	if err != nil {
		panic("policy: the schema is not built in: " + err.Error()) // a build that cannot happen
	}
	return string(b)
}

// Load reads the *.cedar files at the root of fsys, parses them and checks
// every policy strictly against the schema. A copy of the schema beside them
// must be the one this version ships. On any problem there is no bundle and
// the error says where, see Problems.
func Load(fsys fs.FS) (*Bundle, error) {
	files, err := read(fsys)
	if err != nil {
		return nil, err
	}
	own := SchemaText()
	if text, ok := files[schemaFile]; ok && text != own {
		return nil, broken(Problem{File: schemaFile, Line: 1, Column: 1, Text: "not the schema of this version of Palyra; replace or remove it"})
	}
	files[schemaFile] = own
	return compile(files)
}

// Digest identifies the bundle: the same files have the same digest.
func (b *Bundle) Digest() palyra.Digest { return b.digest }

// Policies lists every policy, in the order of files and lines.
func (b *Bundle) Policies() []palyra.PolicyHit {
	hits := make([]palyra.PolicyHit, len(b.rules))
	for i, r := range b.rules {
		hits[i] = r.hit
	}
	return hits
}

// read returns the bundle's files by name, within the limits.
func read(fsys fs.FS) (map[string]string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: cannot be read").
			WithRemedy("give a directory that holds *.cedar files").WithCause(err)
	}
	files, total := map[string]string{}, 0
	for _, e := range entries {
		if e.IsDir() || (!strings.HasSuffix(e.Name(), ".cedar") && e.Name() != schemaFile) {
			continue
		}
		text, err := readFile(fsys, e.Name())
		if err != nil {
			return nil, err
		}
		files[e.Name()] = text
		total += len(text)
		if len(files) > maxFiles || total > maxBundle {
			return nil, broken(Problem{
				File: e.Name(), Line: 1, Column: 1,
				Text: fmt.Sprintf("the bundle is larger than %d files or %d bytes", maxFiles, maxBundle),
			})
		}
	}
	return files, nil
}

func readFile(fsys fs.FS, name string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: %s cannot be opened", name).WithCause(err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "policy bundle: %s cannot be read", name).WithCause(err)
	}
	if len(b) > maxFile {
		return "", broken(Problem{File: name, Line: 1, Column: 1, Text: fmt.Sprintf("larger than %d bytes", maxFile)})
	}
	if !utf8.Valid(b) {
		return "", broken(Problem{File: name, Line: 1, Column: 1, Text: "not valid UTF-8"})
	}
	return string(b), nil
}

// sum is the digest over the sorted names and the SHA-256 of each content.
func sum(files map[string]string) (palyra.Digest, error) {
	digests := make(map[string]string, len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		digests[name] = string(palyra.SumBytes([]byte(files[name])))
	}
	d, err := canon.Digest(bundleDomain, digests)
	if err != nil {
		return "", fmt.Errorf("policy: bundle digest: %w", err)
	}
	return palyra.Digest(d), nil
}

// Files returns the texts the bundle was made from, by name.
func (b *Bundle) Files() map[string]string { return maps.Clone(b.files) }
