// Package web holds the console as it was built from console/, so that a program built without Node has it. It promises
// that what it holds was built from the sources beside it: 'make console' writes down the digest of what it read, and
// Stale compares. It serves nothing: the door for browsers does.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// inputs is the file with the digest of the sources.
const inputs = "inputs.sha256"

// Files is the console: index.html, and what that names.
func Files() fs.FS {
	files, _ := fs.Sub(dist, "dist") // a valid constant path: it cannot fail
	return files
}

// Names lists the files that a browser may ask for by name, which are all but the page itself.
func Names() (names []string) {
	_ = fs.WalkDir(Files(), ".", func(name string, d fs.DirEntry, err error) error { // what is embedded can be read
		if err == nil && !d.IsDir() && name != "index.html" && name != inputs {
			names = append(names, name)
		}
		return err
	})
	return names
}
