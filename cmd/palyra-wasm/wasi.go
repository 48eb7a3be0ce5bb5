//go:build cgo && linux

package main

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// The errors of WASI that are used.
const (
	wasiOK     = 0
	wasiBadFD  = 8
	wasiInval  = 28
	wasiNoSys  = 52
	wasiNoSeek = 70
)

// The standard streams of a command.
const (
	stdin = iota
	stdout
	stderr
)

// absent functions are there so that modules of ordinary compilers can be linked; there are no files, directories and
// sockets that they could do something with. By the error that they return.
var absent = map[uint64]map[string]string{
	wasiBadFD: {
		"fd_advise": "iIIi", "fd_allocate": "iII", "fd_close": "i", "fd_datasync": "i", "fd_fdstat_set_rights": "iII",
		"fd_filestat_set_size": "iI", "fd_filestat_set_times": "iIIi", "fd_pread": "iiiIi",
		"fd_prestat_get": "ii", "fd_prestat_dir_name": "iii", "fd_pwrite": "iiiIi", "fd_readdir": "iiiIi", "fd_renumber": "ii",
		"fd_sync": "i", "fd_tell": "ii",
		"path_create_directory": "iii", "path_filestat_get": "iiiii", "path_filestat_set_times": "iiiiIIi", "path_link": "iiiiiii",
		"path_open": "iiiiiIIii", "path_readlink": "iiiiii", "path_remove_directory": "iii", "path_rename": "iiiiii",
		"path_symlink": "iiiii", "path_unlink_file": "iii",
		"sock_accept": "iii", "sock_recv": "iiiiii", "sock_send": "iiiii", "sock_shutdown": "ii",
	},
	wasiNoSys: {"proc_raise": "i"},
}

// wasi is WASI preview 1 without everything that reaches outside of the instance.
func wasi() map[string]function {
	all := map[string]function{
		"args_get":            {"ii:i", (*running).argsGet},
		"args_sizes_get":      {"ii:i", (*running).argsSizes},
		"environ_get":         {"ii:i", func(*running, memory, []uint64) (uint64, error) { return wasiOK, nil }},
		"environ_sizes_get":   {"ii:i", func(_ *running, m memory, a []uint64) (uint64, error) { return wasiOK, sizes(m, a, 0, 0) }},
		"clock_res_get":       {"ii:i", func(_ *running, m memory, a []uint64) (uint64, error) { return wasiOK, m.put64(a[1], clockStep) }},
		"clock_time_get":      {"iIi:i", (*running).clockTime},
		"fd_fdstat_get":       {"ii:i", (*running).fdStat},
		"fd_fdstat_set_flags": {"ii:i", func(_ *running, _ memory, a []uint64) (uint64, error) { return known(a[0]), nil }},
		"fd_filestat_get":     {"ii:i", (*running).fileStat},
		"fd_read":             {"iiii:i", (*running).fdRead},
		"fd_write":            {"iiii:i", (*running).fdWrite},
		"fd_seek":             {"iIii:i", func(*running, memory, []uint64) (uint64, error) { return wasiNoSeek, nil }},
		"poll_oneoff":         {"iiii:i", (*running).poll},
		"proc_exit":           {"i:", (*running).procExit},
		"random_get":          {"ii:i", (*running).randomGet},
		"sched_yield":         {":i", func(*running, memory, []uint64) (uint64, error) { return wasiOK, nil }},
	}
	for code, names := range absent {
		for name, params := range names {
			all[name] = function{params + ":i", func(*running, memory, []uint64) (uint64, error) { return code, nil }}
		}
	}
	return all
}

// known says whether a number is that of a standard stream.
func known(fd uint64) uint64 {
	if fd > stderr {
		return wasiBadFD
	}
	return wasiOK
}

// A command has two arguments: the ABI, and the function that is called.
func (r *running) args() []string { return []string{"palyra-skill/1", r.order.Function} }

func sizes(m memory, a []uint64, count, bytes int) error {
	if err := m.put32(a[0], uint32(count)); err != nil {
		return err
	}
	return m.put32(a[1], uint32(bytes))
}

func (r *running) argsSizes(m memory, a []uint64) (uint64, error) {
	n := 0
	for _, s := range r.args() {
		n += len(s) + 1
	}
	return wasiOK, sizes(m, a, len(r.args()), n)
}

func (r *running) argsGet(m memory, a []uint64) (uint64, error) {
	at := a[1]
	for i, s := range r.args() {
		if err := m.put32(a[0]+4*uint64(i), uint32(at)); err != nil {
			return 0, err
		}
		b, err := view(m, uint32(at), uint32(len(s)+1))
		if err != nil {
			return 0, err
		}
		b[copy(b, s)] = 0
		at += uint64(len(b))
	}
	return wasiOK, nil
}

// clockStep is how fine clocks are, in nanoseconds: too coarse to time other programs of the machine by.
const clockStep = uint64(time.Millisecond)

// clockTime is the time of day where that was granted. Where it was not, time begins at 0 and goes on by a step whenever
// somebody looks, and by what somebody sleeps: the same in every run.
func (r *running) clockTime(m memory, a []uint64) (uint64, error) {
	r.readings++
	if a[0] > 1 {
		return wasiInval, nil
	}
	return wasiOK, m.put64(a[2], uint64(r.time()))
}

func (r *running) time() int64 {
	if r.order.Clock {
		now := time.Now().UnixNano()
		return now - now%int64(clockStep)
	}
	r.logical += time.Microsecond
	return int64(r.logical)
}

func (r *running) randomGet(m memory, a []uint64) (uint64, error) {
	room, err := view(m, uint32(a[0]), uint32(a[1]))
	if err != nil {
		return 0, err
	}
	r.randoms += int64(len(room))
	if r.order.Random {
		_, _ = rand.Read(room) // never fails
	} else {
		clear(room)
		r.noise.XORKeyStream(room, room)
	}
	return wasiOK, r.burn(uint64(len(room)))
}

func (r *running) fdStat(m memory, a []uint64) (uint64, error) {
	b, err := view(m, uint32(a[1]), 24)
	if err != nil || a[0] > stderr {
		return wasiBadFD, err
	}
	clear(b)
	b[0] = 2                                                   // a character device: nobody seeks in it
	binary.LittleEndian.PutUint64(b[8:], 1<<1|1<<6|1<<21|1<<3) // the rights to read, write, look and set flags
	return wasiOK, nil
}

func (r *running) fileStat(m memory, a []uint64) (uint64, error) {
	b, err := view(m, uint32(a[1]), 64)
	if err != nil || a[0] > stderr {
		return wasiBadFD, err
	}
	clear(b)
	b[16] = 2
	return wasiOK, nil
}

// maxVectors is the most parts of one reading or writing.
const maxVectors = 1024

// each calls do for the parts that a list of vectors names, until it has enough.
func each(m memory, at, n uint64, do func(part []byte) (enough bool, err error)) error {
	for i := range n {
		v, err := view(m, uint32(at+8*i), 8)
		if err != nil {
			return err
		}
		part, err := view(m, binary.LittleEndian.Uint32(v), binary.LittleEndian.Uint32(v[4:]))
		if err != nil {
			return err
		}
		if enough, err := do(part); enough || err != nil {
			return err
		}
	}
	return nil
}

func (r *running) fdRead(m memory, a []uint64) (uint64, error) {
	if a[0] != stdin || a[2] > maxVectors {
		return wasiBadFD, nil
	}
	n := 0
	err := each(m, a[1], a[2], func(part []byte) (bool, error) {
		got := copy(part, r.input[r.read:])
		r.read, n = r.read+got, n+got
		return got < len(part), nil
	})
	if err == nil {
		err = m.put32(a[3], uint32(n))
	}
	if err == nil {
		err = r.burn(uint64(n))
	}
	return wasiOK, err
}

func (r *running) fdWrite(m memory, a []uint64) (uint64, error) {
	if (a[0] != stdout && a[0] != stderr) || a[2] > maxVectors {
		return wasiBadFD, nil
	}
	n := 0
	err := each(m, a[1], a[2], func(part []byte) (bool, error) {
		n += len(part)
		if a[0] == stderr {
			r.log(part)
			return false, nil
		}
		if int64(len(r.output))+int64(len(part)) > r.order.Output {
			return true, outputLimit(r.order.Output)
		}
		r.output = append(r.output, part...)
		return false, nil
	})
	if err == nil {
		err = m.put32(a[3], uint32(n))
	}
	if err == nil {
		err = r.burn(uint64(n))
	}
	return wasiOK, err
}

func (r *running) procExit(_ memory, a []uint64) (uint64, error) {
	r.exited, r.exit = true, int32(uint32(a[0]))
	return 0, stopf("wasm_exit", "exit")
}

// Sizes and places of WASI's structures for waiting.
const (
	subscription = 48
	event        = 32
	maxEvents    = 64
)

// poll waits. Streams are always ready; without a clock there is nothing to wait for, and time goes on at once.
func (r *running) poll(m memory, a []uint64) (uint64, error) {
	if a[2] == 0 || a[2] > maxEvents {
		return wasiInval, nil
	}
	in, err := view(m, uint32(a[0]), uint32(a[2]*subscription))
	if err != nil {
		return 0, err
	}
	out, err := view(m, uint32(a[1]), uint32(a[2]*event))
	if err != nil {
		return 0, err
	}
	least := r.least(in)
	if err := r.sleep(least); err != nil {
		return 0, err
	}
	happened := events(in, out, least, r.remaining)
	return wasiOK, m.put32(a[3], happened)
}

// remaining is how long a subscription of a clock has to wait.
func (r *running) remaining(sub []byte) time.Duration {
	d := binary.LittleEndian.Uint64(sub[24:])
	if binary.LittleEndian.Uint16(sub[40:])&1 != 0 { // until a time
		now := uint64(r.logical)
		if r.order.Clock {
			now = uint64(time.Now().UnixNano())
		}
		d -= min(now, d)
	}
	return time.Duration(min(d, uint64(time.Hour)))
}

// least is how long the first event takes.
func (r *running) least(in []byte) time.Duration {
	least := time.Hour
	for ; len(in) > 0; in = in[subscription:] {
		if in[8] != 0 {
			return 0
		}
		least = min(least, r.remaining(in))
	}
	return least
}

func (r *running) sleep(d time.Duration) error {
	if !r.order.Clock {
		r.logical += d
		return nil
	}
	left := time.Until(r.deadline)
	<-time.After(min(d, left))
	if d >= left {
		return r.late()
	}
	return nil
}

// events writes down what happened: streams that are ready, and clocks that waited no longer than that.
func events(in, out []byte, waited time.Duration, remaining func([]byte) time.Duration) (n uint32) {
	for ; len(in) > 0; in = in[subscription:] {
		if in[8] == 0 && remaining(in) > waited {
			continue
		}
		e := out[n*event:][:event]
		clear(e)
		copy(e, in[:8])
		e[10] = in[8]
		if in[8] != 0 {
			binary.LittleEndian.PutUint64(e[16:], 1)
		}
		n++
	}
	return n
}
