package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// sources is where the console is written.
const sources = "../../console"

// digest is that of the sources, as scripts/console.sh writes it down: a line for each file, sorted by name.
func digest(t *testing.T) string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(sources), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case !d.IsDir():
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		raw, rerr := os.ReadFile(path.Join(sources, name))
		one := sha256.Sum256(raw)
		fmt.Fprintf(sum, "%s  %s\n", hex.EncodeToString(one[:]), name)
		err = errors.Join(err, rerr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// The console that is checked in was built from the sources that are.
func TestBuiltFromTheSources(t *testing.T) {
	got, err := fs.ReadFile(Files(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	if want := digest(t); strings.TrimSpace(string(got)) != want {
		t.Errorf("internal/web/dist was built from other sources than console/ holds: run 'make console' and commit the result\n"+
			"built from %s\nnow        %s", got, want)
	}
}

// What a browser loads at first stays small.
func TestBundleIsSmall(t *testing.T) {
	const most = 350 << 10
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for _, name := range append(Names(), "index.html") {
		raw, err := fs.ReadFile(Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = z.Write(raw)
	}
	_ = z.Close()
	t.Logf("%d KiB gzip", packed.Len()>>10)
	if packed.Len() > most {
		t.Errorf("%d bytes gzip, at most %d", packed.Len(), most)
	}
}

// A page needs nothing from anywhere else, and has no script in itself.
func TestPageIsWhole(t *testing.T) {
	raw, err := fs.ReadFile(Files(), "index.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>", "<style", "http:", "https:", "//"} {
		if strings.Contains(strings.ReplaceAll(string(raw), "<!doctype html>", ""), bad) {
			t.Errorf("index.html has %s in it", bad)
		}
	}
}
