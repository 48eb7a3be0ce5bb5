package files

import (
	"path"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/subpath"
)

const (
	maxPath = 4096
	maxName = 255
)

// clean turns a path as an agent wrote it into one relative to the workspace: "." or "a/b", without
// "..", never absolute. An absolute path counts when it lies under one of the spellings of the
// workspace. It works on text only; links are checked when the path is opened.
func clean(asked string, spellings ...string) (string, error) {
	if !utf8.ValidString(asked) {
		return "", badPath("the path is not valid UTF-8").WithRemedy("give it quoted, as palyra.fs.list shows it")
	}
	asked = palyra.PathText(asked).Asked()
	switch {
	case len(asked) > maxPath:
		return "", badPath("the path has %d bytes; at most %d are accepted", len(asked), maxPath)
	case strings.IndexByte(asked, 0) >= 0:
		return "", badPath("the path contains a NUL character")
	}
	rel := path.Clean("./" + asked)
	if path.IsAbs(asked) {
		var ok bool
		if rel, ok = stripRoot(path.Clean(asked), spellings); !ok {
			return "", outsideError(asked)
		}
	}
	if !subpath.Within(".", rel) {
		return "", outsideError(asked)
	}
	for name := range strings.SplitSeq(rel, "/") {
		if len(name) > maxName {
			return "", badPath("a name in the path has %d bytes; at most %d are accepted", len(name), maxName)
		}
	}
	return rel, nil
}

// stripRoot strips the first root that contains abs.
func stripRoot(abs string, roots []string) (string, bool) {
	for _, root := range roots {
		if rel, ok := subpath.Rel(root, abs); ok {
			return rel, true
		}
	}
	return "", false
}

// textOf is a path in plans and results: quoted where it is not UTF-8, and where it would be taken for such a one.
func textOf(name string) string {
	if utf8.ValidString(name) && palyra.PathText(name).Asked() == name {
		return name
	}
	return string(palyra.TextOfPath(name))
}

// cleanTarget is clean for a file that is to be written: it must have a name, which is text, as policies and records take it.
func cleanTarget(asked string, spellings ...string) (string, error) {
	if palyra.PathText(asked).Asked() != asked {
		return "", badPath("%s is a name that is not UTF-8: it can be read, and not be written", quote(palyra.PathText(asked).Asked())).
			WithRemedy("write to another name, and move it there with a program")
	}
	rel, err := clean(asked, spellings...)
	if err == nil && (rel == "." || strings.HasSuffix(asked, "/") || asked == "") {
		return "", badPath("%s names a directory, not a file", quote(asked))
	}
	return rel, err
}

func badPath(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonPathInvalid, format, args...).
		WithRemedy("give a path relative to the workspace")
}

func outsideError(asked string) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonPathOutside, "%s lies outside the workspace", quote(asked)).
		WithRemedy("give a path relative to the workspace")
}

// quote is a path for an error message: short, and without characters that could make it look like another.
func quote(p string) string {
	const most = 200
	if !utf8.ValidString(p) {
		return palyra.Clip(textOf(p), most)
	}
	return strings.TrimSpace(quoteUnlessPlain(palyra.Clip(p, most)))
}
