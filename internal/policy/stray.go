package policy

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"palyra"
)

// Limits of the search for files that were meant to be read.
const (
	maxStrayDepth   = 4
	maxStrayEntries = 4096
)

// strays refuses files beside a bundle's own that look like policies or tests but that no bundle has: they
// would have no effect, and their author would not be told.
func strays(fsys fs.FS) error {
	var found []Problem
	seen := 0
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if seen++; err != nil || seen > maxStrayEntries || len(found) > shown {
			return fs.SkipAll // a directory that cannot be read was hardly meant to be
		}
		hidden := name != "." && strings.HasPrefix(path.Base(name), ".")
		switch {
		case e.IsDir() && (hidden || strings.Count(name, "/") >= maxStrayDepth):
			return fs.SkipDir
		case e.IsDir() || hidden:
			return nil
		}
		if text := stray(name); text != "" {
			found = append(found, Problem{File: palyra.Clip(strings.Map(onlyPrintable, name), maxFileName), Line: 1, Column: 1, Text: text})
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		return err
	}
	return bundleError(found...)
}

// stray says what is wrong with the name of a file that looks like a bundle's and is not. Copies that editors
// leave (x.cedar~) do not look like one.
func stray(name string) string {
	dir, base := path.Split(name)
	ext := path.Ext(base)
	switch {
	case belongs(name) || strings.HasSuffix(base, "~"):
		return ""
	case dir != "" && ext == cedarSuffix:
		return "a policy in a directory is not read: put it beside the others"
	case dir != "":
		if dir == testsDir+"/" && ext == ".yml" {
			return fmt.Sprintf("it is not read: the name of a file with tests ends in %s", testSuffix)
		}
		return ""
	case ext == ".cedarschema":
		return fmt.Sprintf("it is not read: the schema is called %s", schemaFile)
	case strings.HasPrefix(strings.ToLower(ext), ".ced"):
		return fmt.Sprintf("it is not read: the name of a file with policies ends in %s", cedarSuffix)
	}
	return ""
}
