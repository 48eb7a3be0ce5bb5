package policy

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// A file that was meant to be a policy and is none is told, not left out.
func TestReadTellsOfStrays(t *testing.T) {
	good := `@id("a") permit (principal, action, resource);`
	for name, want := range map[string]string{
		"x.ceder":                   "x.ceder:1:1: it is not read: the name of a file with policies ends in .cedar",
		"x.ced":                     "ends in .cedar",
		"x.CEDAR":                   "ends in .cedar",
		"sub/x.cedar":               "sub/x.cedar:1:1: a policy in a directory is not read",
		"a/b/c/x.cedar":             "a policy in a directory",
		"tests/x.cedar":             "a policy in a directory",
		"tests/x.yml":               "ends in .yaml",
		"my.cedarschema":            "the schema is called schema.cedarschema",
		"README.md":                 "",
		"x.cedar~":                  "",
		"x.cedar.bak":               "",
		".x.cedar.swp":              "",
		".git/x.cedar":              "",
		"docs/x.md":                 "",
		"a/b/c/d/e/f/g/x.cedar":     "",
		"node_modules/tests/a.yaml": "",
	} {
		files, err := Read(fstest.MapFS{"a.cedar": {Data: []byte(good)}, name: {Data: []byte(good)}})
		switch {
		case want == "" && (err != nil || len(files) != 1):
			t.Errorf("%s: %v %v", name, files, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The search ends in a large directory, and a name draws nothing.
func TestStraysAreBounded(t *testing.T) {
	many := fstest.MapFS{}
	for i := range maxStrayEntries + 10 {
		many[fmt.Sprintf("a%06d.txt", i)] = &fstest.MapFile{}
	}
	many["z.ceder"] = &fstest.MapFile{}
	if err := strays(many); err != nil {
		t.Error(err)
	}
	if err := strays(fstest.MapFS{"\x1b[2J.ceder": {}}); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Error(err)
	}
}
