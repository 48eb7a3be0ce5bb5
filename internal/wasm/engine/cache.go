package engine

import (
	"container/list"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/durable"
)

const (
	keySize = 32
	magic   = "palyra wasm artifact 1\n"
	suffix  = ".artifact"

	maxArtifact = 256 << 20
	maxKept     = 128 << 20 // in memory
	maxOnDisk   = 1 << 30
	maxFiles    = 256
)

// cache keeps artifacts. Losing one costs a compilation and nothing else.
type cache struct {
	dir, runtime string
	key          []byte
	log          *slog.Logger

	mu    sync.Mutex
	kept  map[key]*list.Element
	order *list.List // of *kept, the latest used first
	size  int64
}

type kept struct {
	key      key
	artifact []byte
}

func (c *cache) init(f Config) {
	c.dir, c.runtime, c.key, c.log = f.Dir, f.Runtime, slices.Clone(f.Key), f.Log
	c.kept, c.order = map[key]*list.Element{}, list.New()
}

// get returns an artifact; nil: there is none.
func (c *cache) get(k key) []byte {
	c.mu.Lock()
	if el := c.kept[k]; el != nil {
		c.order.MoveToFront(el)
		c.mu.Unlock()
		return el.Value.(*kept).artifact
	}
	c.mu.Unlock()
	a := c.read(k)
	if a != nil {
		c.remember(k, a)
	}
	return a
}

// put keeps an artifact.
func (c *cache) put(k key, a []byte) {
	c.remember(k, a)
	if c.dir == "" {
		return
	}
	err := durable.Write(c.path(k), 0o600, true, func(w io.Writer) error {
		for _, b := range [][]byte{[]byte(magic), c.seal(k, a), a} {
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.log.Warn("a compiled module is not kept", "err", err)
	}
	c.prune()
}

func (c *cache) remember(k key, a []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.kept[k]; el != nil {
		c.drop(el)
	}
	c.kept[k] = c.order.PushFront(&kept{k, a})
	c.size += int64(len(a))
	for c.size > maxKept && c.order.Len() > 1 {
		c.drop(c.order.Back())
	}
}

// drop forgets one. The caller holds mu.
func (c *cache) drop(el *list.Element) {
	old := c.order.Remove(el).(*kept)
	delete(c.kept, old.key)
	c.size -= int64(len(old.artifact))
}

// path is where an artifact lies: by what it is of, and which runtime made it.
func (c *cache) path(k key) string {
	sum := sha256.Sum256(c.name(k))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:])+suffix)
}

// name is what an artifact is, as bytes that no other has.
func (c *cache) name(k key) []byte {
	var b []byte
	for _, s := range []string{magic, c.runtime, string(k.digest), string(k.kind)} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b
}

func (c *cache) seal(k key, a []byte) []byte {
	h := hmac.New(sha256.New, c.key)
	_, _ = h.Write(c.name(k)) // never fails
	_, _ = h.Write(a)
	return h.Sum(nil)
}

// read returns an artifact on disk whose seal is whole. Any other is removed.
func (c *cache) read(k key) []byte {
	if c.dir == "" {
		return nil
	}
	a, err := c.open(k)
	switch {
	case err == nil:
		now := time.Now()
		_ = os.Chtimes(c.path(k), now, now) // what is used is removed last
		return a
	case !errors.Is(err, fs.ErrNotExist):
		c.log.Warn("a compiled module on disk is not as it was written, and is made anew", "err", err)
		_ = os.Remove(c.path(k))
	}
	return nil
}

var errSeal = errors.New("engine: the seal of an artifact is broken")

func (c *cache) open(k key) ([]byte, error) {
	f, err := os.Open(c.path(k))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, len(magic)+sha256.Size)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, errSeal
	}
	a, err := io.ReadAll(io.LimitReader(f, maxArtifact+1))
	if err != nil {
		return nil, err
	}
	if len(a) > maxArtifact || string(head[:len(magic)]) != magic || !hmac.Equal(head[len(magic):], c.seal(k, a)) {
		return nil, errSeal
	}
	return a, nil
}

// prune removes what was not used for the longest time, where there is too much.
func (c *cache) prune() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var all []fs.FileInfo
	size := int64(0)
	for _, e := range entries {
		if i, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), suffix) && i.Mode().IsRegular() {
			all, size = append(all, i), size+i.Size()
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for n := len(all); len(all) > 1 && (size > maxOnDisk || n > maxFiles); n-- {
		_ = os.Remove(filepath.Join(c.dir, all[0].Name()))
		size, all = size-all[0].Size(), all[1:]
	}
}
