package preimage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/fault"
	"palyra/internal/owner"
)

// SealWith has what is remembered sealed by s: Seal does it. Stranded is told of entries in which something that was opened
// could not be removed; Seal removes it.
func (p *Store) SealWith(s Sealer, stranded func(name string, err error)) {
	p.sealer, p.stranded = s, stranded
}

// turn is whose turn it is with an entry.
type turn struct {
	sync.Mutex
	users int
}

// alone waits until nobody else works on an entry. It returns what ends the turn.
func (p *Store) alone(name string) (done func()) {
	p.mu.Lock()
	if p.busy == nil {
		p.busy = map[string]*turn{}
	}
	t := p.busy[name]
	if t == nil {
		t = &turn{}
		p.busy[name] = t
	}
	t.users++
	p.mu.Unlock()
	t.Lock()
	return func() {
		t.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(p.busy, name)
		}
	}
}

// has reports whether an entry has something of that name in it that is not an empty directory.
func has(top int, name string) (bool, error) {
	st, missing, err := beneath.LookAt(top, name)
	if err != nil || missing || !beneath.IsDir(&st) {
		return err == nil && !missing, err
	}
	d, err := beneath.OpenDir(top, name)
	if err != nil {
		return false, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(1)
	return len(names) > 0, beneath.Ignore(err, io.EOF)
}

// Open reports whether something of what is remembered under a name lies there as it was, or half sealed: it is not sealed
// yet, or was opened and not removed.
func (p *Store) Open(name string) (bool, error) {
	top, err := beneath.OpenDir(p.Dir(), name)
	if err != nil {
		return false, beneath.Ignore(err, unix.ENOENT)
	}
	defer func() { _ = top.Close() }()
	for _, part := range []string{Old, opened, sealing} {
		if is, err := has(int(top.Fd()), part); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// Seal seals what is remembered under a name, where it is not. It is there sealed and durably before what it was made of
// goes: a crash leaves one of the two, or both. What was opened, or begun to be sealed, and was left there goes too.
func (p *Store) Seal(ctx context.Context, name string) error {
	if p.sealer == nil {
		return nil
	}
	defer p.alone(name)()
	top, err := beneath.OpenDir(p.Dir(), name)
	if err != nil {
		return beneath.Ignore(err, unix.ENOENT)
	}
	defer func() { _ = top.Close() }()
	dir := int(top.Fd())
	if err := p.remove(dir, opened, sealing); err != nil {
		return fmt.Errorf("preimage: seal: %w", err)
	}
	if is, err := has(dir, Old); err != nil || !is {
		return err
	}
	if is, err := has(dir, Sealed); err != nil || !is {
		if err == nil {
			err = p.seal(ctx, dir, name)
		}
		if err != nil {
			return fmt.Errorf("preimage: seal: %w", errors.Join(err, p.remove(dir, sealing)))
		}
	}
	return p.remove(dir, Old)
}

// remove removes parts of an entry.
func (p *Store) remove(dir int, parts ...string) error {
	if p.clear != nil {
		return p.clear(owner.As, dir, parts...)
	}
	return beneath.Clear(owner.As, dir, parts...)
}

func (p *Store) seal(ctx context.Context, dir int, name string) error {
	m, err := p.Head(name)
	if err != nil {
		return err
	}
	old, err := beneath.OpenIn(dir, Old, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(old) }()
	fd, err := unix.Openat(dir, sealing, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), sealing)
	buffer := bufio.NewWriterSize(f, 256<<10)
	w, err := p.sealer.Seal(buffer)
	if err == nil {
		err = readBack(ctx, w, name, func(to io.Writer) error {
			return owner.Do(m.Owner(), func() error { return writeTree(ctx, to, name, old) })
		})
	}
	if err == nil {
		err = errors.Join(w.Close(), buffer.Flush(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	fault.Point("undo.sealed/lost")
	if err := unix.Renameat(dir, sealing, dir, Sealed); err != nil {
		return err
	}
	err = unix.Fsync(dir)
	fault.Point("undo.sealed/kept")
	return err
}

// openSealed opens what is sealed under a name; nothing: it is not. The turn is the caller's.
func (p *Store) openSealed(name string) (text io.Reader, done func(), err error) {
	fd, err := beneath.OpenAt2(p.Dir(), name+"/"+Sealed, unix.O_RDONLY|unix.O_NOFOLLOW, beneath.Resolve)
	if errors.Is(err, unix.ENOENT) {
		return nil, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), Sealed)
	if p.sealer == nil {
		err = errors.New("preimage: it is sealed, and nothing here opens it")
	} else {
		text, err = p.sealer.Open(bufio.NewReaderSize(f, 256<<10))
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return text, func() { _ = f.Close() }, nil
}

// OpenOld opens the directory of what was there, for reference, and has it stay until done is called. What is sealed is
// opened meanwhile.
func (p *Store) OpenOld(ctx context.Context, name string) (old int, done func(), err error) {
	free := p.alone(name)
	defer func() {
		if err != nil {
			free()
			err = fmt.Errorf("preimage: open: %w", err)
		}
	}()
	text, end, err := p.openSealed(name)
	if err != nil {
		return -1, nil, err
	}
	defer end()
	if text == nil {
		old, err = beneath.OpenAt2(p.Dir(), name+"/"+Old, unix.O_PATH|unix.O_DIRECTORY, beneath.Resolve)
		return old, func() { _ = unix.Close(old); free() }, err
	}
	m, err := p.Head(name)
	if err != nil {
		return -1, nil, err
	}
	top, err := beneath.OpenDir(p.Dir(), name)
	if err != nil {
		return -1, nil, err
	}
	clean := func() error { return p.remove(int(top.Fd()), opened) }
	if old, err = p.unseal(ctx, int(top.Fd()), name, text, m.Owner(), clean); err != nil {
		p.strand(name, clean())
		return -1, nil, errors.Join(err, top.Close())
	}
	return old, func() {
		_ = unix.Close(old)
		err := clean()
		_ = top.Close()
		free()
		p.strand(name, err)
	}, nil
}

// strand tells that something that was opened lies there still.
func (p *Store) strand(name string, err error) {
	if err != nil && p.stranded != nil {
		p.stranded(name, err)
	}
}

// unseal makes the directory of what was there.
func (p *Store) unseal(ctx context.Context, top int, name string, text io.Reader, id owner.Identity, clean func() error) (int, error) {
	err := clean() // of a daemon that died
	if err == nil {
		err = unix.Mkdirat(top, opened, 0o700)
	}
	if err == nil {
		err = beneath.Give(top, opened, int(id.UID), int(id.GID), 0o700)
	}
	if err != nil {
		return -1, err
	}
	old, err := beneath.OpenIn(top, opened, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	if err := owner.Do(id, func() error { return readTree(ctx, text, name, old) }); err != nil {
		return -1, errors.Join(err, unix.Close(old))
	}
	fault.Point("undo.opened/kept")
	return old, nil
}

// mostShown is how much of what is sealed is read at once to be shown.
const mostShown = 64 << 20

// sealedContents reads what files that are picked had, by where they lie, out of what is sealed; nil: it is not sealed.
func (p *Store) sealedContents(ctx context.Context, m *Manifest, name string, pick func(change.Change) bool, most int64,
) (map[string][]byte, error) {
	defer p.alone(name)()
	text, done, err := p.openSealed(name)
	if err != nil || text == nil {
		return nil, err
	}
	defer done()
	want := map[string]bool{}
	for i := range m.Changes {
		e := &m.Changes[i]
		if e.Was.Kind != change.File || max(e.Was.Size, e.Now.Size) > most || !pick(e.Change()) {
			continue
		}
		for _, at := range e.places() {
			want[at] = true
		}
	}
	return treeFiles(ctx, text, name, func(at string, size int64) bool { return size <= most && want[at] }, mostShown)
}
