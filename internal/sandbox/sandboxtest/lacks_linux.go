package sandboxtest

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Features that a tier may have. A tier without one says so in its Lacks, and the suite then asks
// for the replacement: no network at all instead of an empty one, for example.
const (
	ownFiles   = "a file system of its own" // what is not the workspace is the run's, or read-only, or not there
	ownNetwork = "a network of its own"
	ownIPC     = "IPC of its own"
	sealsPaths = "sealed paths"
)

// ledger records which lacks were met. Whatever the suite leaves out or reverses goes through it: a lack that
// is never met does not belong on the list, and nothing is left out that the list does not name.
type ledger struct {
	mu  sync.Mutex
	met map[string]bool
}

func (l *ledger) note(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.met == nil {
		l.met = map[string]bool{}
	}
	l.met[name] = true
}

// lacks reports whether the tier says that it lacks something, and logs why. It is the only way in
// which a part of the suite is left out.
func (b *bench) lacks(t *testing.T, what string) bool {
	t.Helper()
	why, lacks := b.Lacks[what]
	if lacks {
		t.Logf("the tier lacks %q: %s", what, why)
		b.ledger.note(what)
	}
	return lacks
}

func (b *bench) has(t *testing.T, what string) bool {
	t.Helper()
	return !b.lacks(t, what)
}

var lackLine = regexp.MustCompile(`the tier lacks ("(?:[^"\\]|\\.)*"):`)

// read adds the lacks that another process of the suite met.
func (l *ledger) read(text string) {
	for _, m := range lackLine.FindAllStringSubmatch(text, -1) {
		if name, err := strconv.Unquote(m[1]); err == nil {
			l.note(name)
		}
	}
}

// complete checks that every lack was met.
func (l *ledger) complete(t *testing.T, lacks map[string]string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(lacks)) {
		if !l.met[name] {
			t.Errorf("the tier is said to lack %q, which the suite met nowhere", name)
		}
	}
}
