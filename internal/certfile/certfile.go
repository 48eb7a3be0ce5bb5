// Package certfile serves a certificate from two files, which somebody else renews: both are looked at when a client
// comes, and read again when they have changed.
//
// Promises: a key that others can read is not used, nor a certificate that is not for its name, is over, or does not fit
// the key. Where the new files are no good, those that were are served on for as long as they hold, and somebody is told.
package certfile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Bounds of the files, and how often they are looked at.
const (
	maxFile = 256 << 10
	every   = time.Second
)

// Pair is a certificate and its key.
type Pair struct {
	// Trouble is told why new files are not used, once for each of them.
	Trouble func(error)

	cert, key, name string
	now             func() time.Time

	mu    sync.Mutex // guards what follows
	seen  [2]mark    // of the files when they were read last
	asked time.Time
	pair  *tls.Certificate
}

// mark tells whether a file has changed.
type mark struct {
	at   time.Time
	size int64
	file fs.FileInfo
}

func (m mark) same(o mark) bool {
	if m.file == nil || o.file == nil {
		return m.file == nil && o.file == nil
	}
	return m.at.Equal(o.at) && m.size == o.size && os.SameFile(m.file, o.file)
}

// Open reads both files.
func Open(cert, key, name string, now func() time.Time) (*Pair, error) {
	if cert == "" || key == "" || name == "" {
		return nil, errors.New("certfile: the name, the certificate and the key are needed")
	}
	if !filepath.IsAbs(cert) || !filepath.IsAbs(key) {
		return nil, errors.New("certfile: the files are named by absolute paths")
	}
	p := &Pair{cert: cert, key: key, name: name, now: now, Trouble: func(error) {}}
	var err error
	p.pair, p.seen, err = p.read()
	p.asked = now()
	return p, err
}

// Certificate is the certificate as the files have it now.
func (p *Pair) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if !now.Before(p.asked.Add(every)) || now.Before(p.asked) {
		p.asked = now
		p.reload()
	}
	if !now.Before(p.pair.Leaf.NotAfter) {
		return nil, errors.New("certfile: the certificate is over")
	}
	return p.pair, nil
}

// reload reads the files again when they have changed.
func (p *Pair) reload() {
	marks, err := p.marks()
	if err == nil && marks[0].same(p.seen[0]) && marks[1].same(p.seen[1]) {
		return
	}
	pair, seen, err := p.read()
	if err != nil {
		if !seen[0].same(p.seen[0]) || !seen[1].same(p.seen[1]) {
			p.Trouble(err)
		}
		p.seen = seen
		return
	}
	p.pair, p.seen = pair, seen
}

func (p *Pair) marks() (marks [2]mark, err error) {
	for i, name := range []string{p.cert, p.key} {
		info, err := os.Stat(name)
		if err != nil {
			return marks, err
		}
		marks[i] = mark{info.ModTime(), info.Size(), info}
	}
	return marks, nil
}

// read reads both files, and holds them against each other, the name and the time.
func (p *Pair) read() (*tls.Certificate, [2]mark, error) {
	var marks [2]mark
	cert, m, err := readFile(p.cert, false)
	marks[0] = m
	if err != nil {
		return nil, marks, err
	}
	key, m, err := readFile(p.key, true)
	marks[1] = m
	if err != nil {
		return nil, marks, err
	}
	defer clear(key)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, marks, fmt.Errorf("certfile: %s and its key: %w", p.cert, err)
	}
	if err := pair.Leaf.VerifyHostname(p.name); err != nil {
		return nil, marks, fmt.Errorf("certfile: %s: %w", p.cert, err)
	}
	if now := p.now(); now.Before(pair.Leaf.NotBefore) || !now.Before(pair.Leaf.NotAfter) {
		return nil, marks, fmt.Errorf("certfile: %s holds from %s to %s", p.cert, pair.Leaf.NotBefore, pair.Leaf.NotAfter)
	}
	return &pair, marks, nil
}

// readFile reads a file; a secret one must be the daemon's user's, or root's, and readable by nobody else.
func readFile(name string, secret bool) ([]byte, mark, error) {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() { // to open something else could wait for ever
		return nil, mark{}, errors.Join(err, fmt.Errorf("certfile: %s is not a file", name))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, mark{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, mark{}, err
	}
	m := mark{info.ModTime(), info.Size(), info}
	switch uid, known := ownerOf(info); {
	case !info.Mode().IsRegular():
		return nil, m, fmt.Errorf("certfile: %s is not a file", name)
	case secret && info.Mode().Perm()&0o077 != 0:
		return nil, m, fmt.Errorf("certfile: others can read %s: its mode is %04o", name, info.Mode().Perm())
	case secret && known && uid != 0 && uid != os.Geteuid():
		return nil, m, fmt.Errorf("certfile: %s belongs to another user", name)
	case info.Size() > maxFile:
		return nil, m, fmt.Errorf("certfile: %s is larger than %d bytes", name, maxFile)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	return raw, m, err
}
