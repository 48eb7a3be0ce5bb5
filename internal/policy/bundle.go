package policy

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"

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

//go:embed default ask strict ci readonly
var shipped embed.FS

//go:embed default/schema.cedarschema
var schemaText string

// Bundle is a checked set of policies. It never changes.
type Bundle struct {
	digest  palyra.Digest
	files   map[string]string
	rules   []*rule
	implied rules // about effects.keep and live_asked, where it has none itself
	byID    map[cedar.PolicyID]*rule
	index   index
	actions cedar.EntityMap
	members members
	project palyra.Digest // digest of the workspace's policies that are joined to it
	preset  string        // name of the preset that it is; "" for another bundle
	valid   *validate.Validator
}

// Default returns the policies that Palyra comes with.
func Default() (*Bundle, error) {
	files, err := Preset(DefaultPreset)
	if err != nil {
		return nil, err
	}
	return complete(files)
}

// SchemaText returns the schema that policies are written against.
func SchemaText() string { return schemaText }

// Load reads the bundle at the root of fsys: *.cedar, entities.json and tests/*.yaml. It parses them and checks
// every policy strictly against the schema. A copy of the schema beside them must be the one this version ships. On
// any problem there is no bundle and the error says where, see Problems.
func Load(fsys fs.FS) (*Bundle, error) {
	files, err := Read(fsys)
	if err != nil {
		return nil, err
	}
	return complete(files)
}

// complete compiles files after it has given them the schema, which they need not carry. It keeps the map.
func complete(files map[string]string) (*Bundle, error) {
	return completeWithin(context.Background(), files)
}

// completeWithin is complete with a ctx that can end it.
func completeWithin(ctx context.Context, files map[string]string) (*Bundle, error) {
	own := SchemaText()
	if text, ok := files[schemaFile]; ok && text != own {
		return nil, bundleError(Problem{
			File: schemaFile, Line: 1, Column: 1,
			Text: "not the schema of this version of Palyra; replace or remove it",
		})
	}
	files[schemaFile] = own
	return compileWithin(ctx, files)
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

// Knows reports whether the bundle has a policy of the id.
func (b *Bundle) Knows(id string) bool { return b.byID[cedar.PolicyID(id)] != nil }

// Sum is the digest of a bundle of these files: over the sorted names and the SHA-256 of each content.
func Sum(files map[string]string) (palyra.Digest, error) {
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
