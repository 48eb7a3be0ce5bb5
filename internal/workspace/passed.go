package workspace

import (
	"slices"
	"sync"
)

// glimpsed is what one path was.
type glimpsed struct {
	path string
	id   identity // zero: nothing that can be looked at
}

// passed remembers directories that the rules allow, with all that was looked at for it: while every path is what it
// was, the rules say the same. A directory is not remembered where a link was on the way.
type passed struct {
	mu  sync.Mutex
	all map[asked]look
}

// asked is what the rules were asked about.
type asked struct {
	dir   string
	owner int64
}

type look struct {
	homes []string
	seen  []glimpsed
}

// maxPassed bounds how many directories are remembered, and maxSeen the bytes of the paths that were looked at for one:
// a directory deep below others is not worth them.
const (
	maxPassed = 256
	maxSeen   = 16 << 10
)

func (p *passed) keep(of asked, homes []string, g *glance) {
	size := 0
	for _, s := range g.seen {
		size += len(s.path)
	}
	if g.linked || size > maxSeen {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= maxPassed {
		p.all = map[asked]look{}
	}
	p.all[of] = look{slices.Clone(homes), slices.Clone(g.seen)}
}

// still reports whether a directory was allowed, and nothing that this depends on is another now.
func (p *passed) still(of asked, homes []string) bool {
	p.mu.Lock()
	l, known := p.all[of]
	p.mu.Unlock()
	return known && slices.Equal(l.homes, homes) && !slices.ContainsFunc(l.seen, func(s glimpsed) bool {
		id, link := glimpse(s.path)
		return link || id != s.id
	})
}
