package gitrepo

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
)

// pack is a file with many objects, and the index that says where each is.
type pack struct {
	index, data *os.File
	size        int64 // of data
	width       int
	fan         [256]uint32
}

func (p *pack) close() {
	_ = p.index.Close() // both were only read
	_ = p.data.Close()
}

// kinds of what is in a pack.
var kinds = [8]string{1: "commit", 2: "tree", 3: "blob", 4: "tag"}

const (
	byDistance = 6
	byName     = 7
)

// openPacks opens all packs, once.
func (r *Repository) openPacks() error {
	if r.looked {
		return nil
	}
	r.looked = true
	dir := path.Join(r.common, "objects", "pack")
	entries, err := r.list(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".idx")
		if !ok {
			continue
		}
		if len(r.packs) == maxPacks {
			return unreadable("it has more than %d packs", maxPacks)
		}
		p, err := r.openPack(path.Join(dir, base))
		switch {
		case errors.Is(err, fs.ErrNotExist): // a leftover, as git says
			continue
		case err != nil:
			return err
		}
		r.packs = append(r.packs, p)
	}
	return nil
}

func (r *Repository) openPack(base string) (*pack, error) {
	index, _, err := r.open(base + ".idx")
	if err != nil {
		return nil, err
	}
	data, fi, err := r.open(base + ".pack")
	if err != nil {
		return nil, errors.Join(err, index.Close())
	}
	p := &pack{index: index, data: data, size: fi.Size(), width: r.width}
	var head [8 + 256*4]byte
	if _, err := index.ReadAt(head[:], 0); err != nil || string(head[:8]) != "\xfftOc\x00\x00\x00\x02" {
		p.close()
		return nil, unreadable("%q is no index of version 2: %v", base+".idx", err)
	}
	for i := range p.fan {
		p.fan[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && p.fan[i] < p.fan[i-1] {
			p.close()
			return nil, unreadable("%q is damaged", base+".idx")
		}
	}
	return p, nil
}

// find is where an object lies in the pack.
func (p *pack) find(id ID) (at int64, ok bool, err error) {
	const head = 8 + 256*4
	count, w := int64(p.fan[255]), int64(p.width)
	from, to := int64(0), int64(p.fan[id[0]])
	if id[0] > 0 {
		from = int64(p.fan[id[0]-1])
	}
	name := make([]byte, w)
	i := from + int64(sort.Search(int(to-from), func(i int) bool {
		_, e := p.index.ReadAt(name, head+(from+int64(i))*w)
		err = errors.Join(err, e)
		return err != nil || ID(name) >= id
	}))
	if err != nil {
		return 0, false, unreadable("an index of a pack is cut short: %v", err)
	}
	if i == to {
		return 0, false, nil
	}
	var b [8]byte
	if _, err = p.index.ReadAt(name, head+i*w); err == nil && ID(name) == id {
		_, err = p.index.ReadAt(b[:4], head+count*(w+4)+4*i)
		ok = true
	}
	at = int64(binary.BigEndian.Uint32(b[:4]))
	if err == nil && ok && at&(1<<31) != 0 {
		_, err = p.index.ReadAt(b[:], head+count*(w+8)+8*(at&^(1<<31)))
		at = int64(binary.BigEndian.Uint64(b[:]))
	}
	if err != nil || ok && (at < 0 || at >= p.size) {
		return 0, false, unreadable("an index of a pack is damaged: %v", err)
	}
	return at, ok, nil
}

// packedObject reads an object from whichever pack has it.
func (r *Repository) packedObject(id ID) (object, error) {
	p, at, err := r.inPack(id)
	if err != nil {
		return object{}, err
	}
	return r.unpack(p, at)
}

// unpack reads the object at a place of a pack.
func (r *Repository) unpack(p *pack, at int64) (object, error) {
	var deltas [][]byte
	for range maxChain {
		if err := r.ctx.Err(); err != nil {
			return object{}, err
		}
		kind, base, data, err := r.item(p, at)
		if err != nil {
			return object{}, err
		}
		switch kind {
		case byDistance:
			at = base
		case byName:
			of := ID(data[:r.width])
			data = data[r.width:]
			if p, at, err = r.inPack(of); err != nil {
				return object{}, err
			}
		default:
			return r.patched(object{kinds[kind], data}, deltas)
		}
		deltas = append(deltas, data)
	}
	return object{}, unreadable("an object has more than %d deltas", maxChain)
}

func (r *Repository) inPack(id ID) (*pack, int64, error) {
	if err := r.openPacks(); err != nil {
		return nil, 0, err
	}
	for _, p := range r.packs {
		if at, ok, err := p.find(id); err != nil || ok {
			return p, at, err
		}
	}
	return nil, 0, unreadable("object %s is not there", id)
}

// item unpacks what lies at a place of a pack. Of a delta by name the name stands
// before the data; of one by distance base is where the other lies.
func (r *Repository) item(p *pack, at int64) (kind int, base int64, data []byte, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(p.data, at, p.size-at), 4<<10)
	c, err := in.ReadByte()
	kind, size := int(c>>4&7), int64(c&15)
	for shift := 4; err == nil && c&0x80 != 0; shift += 7 {
		if c, err = in.ReadByte(); shift > 32 {
			return 0, 0, nil, unreadable("an object of a pack is too large")
		}
		size |= int64(c&0x7f) << shift
	}
	var name []byte
	switch {
	case err != nil:
	case kind == byDistance:
		var back uint64
		if back, err = offset(in); err == nil && (back == 0 || back > uint64(at)) {
			return 0, 0, nil, unreadable("a delta of a pack leads out of it")
		}
		base = at - int64(back)
	case kind == byName:
		name = make([]byte, p.width)
		_, err = io.ReadFull(in, name)
	case kinds[kind] == "":
		return 0, 0, nil, unreadable("an object of a pack is of no kind")
	}
	if err != nil {
		return 0, 0, nil, unreadable("a pack is cut short: %v", err)
	}
	data, err = r.inflate(in, size)
	return kind, base, append(name, data...), err
}

// patched applies deltas, the last one first.
func (r *Repository) patched(o object, deltas [][]byte) (object, error) {
	for i := len(deltas) - 1; i >= 0; i-- {
		d := bytes.NewReader(deltas[i])
		from, err := length(d)
		to, e := length(d)
		if err = errors.Join(err, e); err != nil || from != int64(len(o.data)) {
			return object{}, unreadable("a delta is for something else")
		}
		if err := r.spend(to); err != nil {
			return object{}, err
		}
		if o.data, err = patch(o.data, d, to); err != nil {
			return object{}, err
		}
	}
	return o, nil
}

// length reads a number in the form that deltas use for sizes.
func length(in io.ByteReader) (n int64, err error) {
	for shift := 0; ; shift += 7 {
		c, err := in.ReadByte()
		if err != nil || shift > 42 {
			return 0, unreadable("a delta is damaged")
		}
		n |= int64(c&0x7f) << shift
		if c&0x80 == 0 {
			return n, nil
		}
	}
}

// patch makes n bytes of base by the commands of a delta.
func patch(base []byte, d *bytes.Reader, n int64) ([]byte, error) {
	damaged := unreadable("a delta is damaged")
	var out []byte
	for d.Len() > 0 {
		c, _ := d.ReadByte() // there is one
		if c&0x80 == 0 {
			piece := make([]byte, c)
			if _, err := io.ReadFull(d, piece); err != nil || c == 0 {
				return nil, damaged
			}
			out = append(out, piece...)
		} else {
			at, size, err := copied(c, d)
			if err != nil || at+size > int64(len(base)) {
				return nil, damaged
			}
			out = append(out, base[at:at+size]...)
		}
		if int64(len(out)) > n {
			return nil, damaged
		}
	}
	if int64(len(out)) != n {
		return nil, damaged
	}
	return out, nil
}

// copied reads what a command of a delta takes from its base.
func copied(c byte, d io.ByteReader) (at, size int64, err error) {
	for i := range 7 {
		if c&(1<<i) == 0 {
			continue
		}
		b, err := d.ReadByte()
		if err != nil {
			return 0, 0, err
		}
		if i < 4 {
			at |= int64(b) << (8 * i)
		} else {
			size |= int64(b) << (8 * (i - 4))
		}
	}
	size = cmp.Or(size, 0x10000)
	return at, size, nil
}
