//go:build unix

package files

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxLinks  = 40 // as many as the kernel follows
	maxTarget = 4096
)

// follow returns the real path of rel, with every link on the way replaced by its target. A link
// that leads outside is refused. The result is only a name: it is opened without following links,
// so that a link put in place afterwards causes an error.
func (r *root) follow(rel string) (string, error) {
	var done []string
	todo := strings.Split(rel, "/")
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..": // only from a link; the part already followed has no links
			if len(done) == 0 {
				return "", outsideError(rel)
			}
			done = done[:len(done)-1]
			continue
		}
		target, link, err := r.readlink(strings.Join(append(done[:len(done):len(done)], name), "/"))
		if err != nil {
			return "", fail("open", rel, err)
		}
		if !link {
			done = append(done, name)
			continue
		}
		if links++; links > maxLinks {
			return "", badPath("%s goes round in links", quote(rel))
		}
		if path.IsAbs(target) {
			inside, ok := stripRoot(path.Clean(target), []string{r.path})
			if !ok {
				return "", outsideError(rel)
			}
			target, done = inside, nil
		}
		todo = append(strings.Split(target, "/"), todo...)
		if len(todo) > maxPath {
			return "", badPath("%s is too long once its links are followed", quote(rel))
		}
	}
	if len(done) == 0 {
		return ".", nil
	}
	return strings.Join(done, "/"), nil
}

// readlink reads the link at rel; link is false for anything else. rel must exist.
func (r *root) readlink(rel string) (target string, link bool, err error) {
	dir, err := r.open(path.Dir(rel), oPath|unix.O_DIRECTORY)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = unix.Close(dir) }()
	return readlinkAt(dir, path.Base(rel))
}

func readlinkAt(dir int, name string) (target string, link bool, err error) {
	b := make([]byte, maxTarget)
	n, err := unix.Readlinkat(dir, name, b)
	switch {
	case err == unix.EINVAL: // not a link
		return "", false, nil
	case err != nil:
		return "", false, err
	case n == len(b):
		return "", false, unix.ENAMETOOLONG
	}
	return string(b[:n]), true, nil
}
