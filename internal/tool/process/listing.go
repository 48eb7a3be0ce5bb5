package process

import "sync"

// listing keeps the names of interpreters in the directories of the lookup path,
// which are few. It is safe for concurrent use.
type listing struct {
	mu    sync.Mutex
	byDir map[string]listed
}

type listed struct {
	key   fileKey // of the directory
	names []string
}

func newListing() *listing { return &listing{byDir: map[string]listed{}} }

func (l *listing) get(dir string, k fileKey) ([]string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, ok := l.byDir[dir]
	return of.names, ok && of.key == k
}

func (l *listing) put(dir string, k fileKey, names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byDir[dir] = listed{k, names}
}
