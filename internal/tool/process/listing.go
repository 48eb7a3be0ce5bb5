package process

import "sync"

// listing caches the interpreters in the directories of the lookup path. It is safe for concurrent use.
type listing struct {
	mu    sync.Mutex
	byDir map[string]listed
}

type listed struct {
	key   fileKey // of the directory
	files []knownProgram
}

// knownProgram is a name that the table knows. Which file a name stands for is cached until its
// directory changes, but not for a link, which may lead elsewhere meanwhile.
type knownProgram struct {
	name     string
	dev, ino uint64
	link     bool
}

func newListing() *listing { return &listing{byDir: map[string]listed{}} }

func (l *listing) get(dir string, k fileKey) ([]knownProgram, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, ok := l.byDir[dir]
	return of.files, ok && of.key == k
}

func (l *listing) put(dir string, k fileKey, files []knownProgram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byDir[dir] = listed{k, files}
}
