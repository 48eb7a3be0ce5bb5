// Package corpustest brings two outside judges of Cedar to the tests of package policy: the corpus that comes with
// the Cedar library, which holds requests with the answers of the Rust engine, and the Rust engine itself, built
// for WASM and run by Node, for requests that the tests make up.
//
// It knows nothing of the package it helps to test.
package corpustest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
)

// Case is one schema with policies, entities and requests.
type Case struct {
	Name     string
	Schema   string
	Policies string
	Entities []byte
	Valid    bool // the Rust engine's checker, which is strict, accepts the policies
	Requests []Request
}

// Request is a request and what the Rust engine answers. Policies go by their place: policy0, policy1 and so on.
type Request struct {
	Description string           `json:"description"`
	Principal   cedar.EntityUID  `json:"principal"`
	Action      cedar.EntityUID  `json:"action"`
	Resource    cedar.EntityUID  `json:"resource"`
	Context     cedar.Record     `json:"context"`
	Decision    cedar.Decision   `json:"decision"`
	Reasons     []cedar.PolicyID `json:"reason"`
	Errors      []cedar.PolicyID `json:"errors"`
}

const library = "github.com/cedar-policy/cedar-go"

// Corpus calls do with every case of a sample, one of so many and the same ones each time. It returns how
// many cases that were.
func Corpus(t testing.TB, of uint64, do func(Case)) int {
	t.Helper()
	dir := source(t)
	valid := verdicts(t, filepath.Join(dir, "corpus-tests-validation.tar.gz"), of)
	parts := map[string]map[string][]byte{}
	n := 0
	unpack(t, filepath.Join(dir, "corpus-tests.tar.gz"), of, func(name, kind string, data []byte) {
		if parts[name] == nil {
			parts[name] = map[string][]byte{}
		}
		parts[name][kind] = data
		if len(parts[name]) == 4 { // all of it
			n++
			do(newCase(t, name, parts[name], valid))
			delete(parts, name)
		}
	})
	for name := range parts {
		t.Errorf("corpus: %s is not whole", name)
	}
	return n
}

func newCase(t testing.TB, name string, parts map[string][]byte, valid map[string]bool) Case {
	t.Helper()
	c := Case{
		Name: name, Schema: string(parts["cedarschema"]), Policies: string(parts["cedar"]), Entities: parts["entities.json"],
		Valid: valid[name],
	}
	var body struct {
		Requests []Request `json:"requests"`
	}
	if err := json.Unmarshal(parts["json"], &body); err != nil {
		t.Fatalf("corpus: %s: %v", name, err)
	}
	if _, known := valid[name]; !known || len(body.Requests) == 0 || c.Schema == "" {
		t.Fatalf("corpus: %s lacks something", name)
	}
	c.Requests = body.Requests
	return c
}

// verdicts says of each case whether the checker accepts its policies.
func verdicts(t testing.TB, archive string, of uint64) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	unpack(t, archive, of, func(name, _ string, data []byte) {
		var body struct {
			Policies struct {
				Strict bool `json:"strict"`
			} `json:"policyValidation"`
		}
		if err := json.Unmarshal(data, &body); err != nil {
			t.Fatalf("corpus: %s: %v", name, err)
		}
		out[name] = body.Policies.Strict
	})
	return out
}

// unpack calls do with each file of the sample. Names are digests, which makes them good dice.
func unpack(t testing.TB, archive string, of uint64, do func(name, kind string, data []byte)) {
	t.Helper()
	packed, err := os.ReadFile(archive)
	if err != nil {
		t.Fatalf("corpus: %v", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatalf("corpus: %v", err)
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("corpus: %v", err)
		}
		name, kind, _ := strings.Cut(filepath.Base(h.Name), ".")
		if h.Typeflag != tar.TypeReg || !drawn(name, of) {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("corpus: %v", err)
		}
		do(name, kind, data)
	}
}

func drawn(name string, of uint64) bool {
	if len(name) < 8 {
		return false
	}
	n, err := strconv.ParseUint(name[:8], 16, 64)
	return err == nil && n%of == 0
}

// source is where the library's module lies.
func source(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", library).Output()
	if err != nil {
		t.Fatalf("corpus: go list: %v", err)
	}
	return strings.TrimSpace(string(out))
}
