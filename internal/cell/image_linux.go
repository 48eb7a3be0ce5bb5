package cell

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// An image is what the first process of a room, or a cell's launcher, is given of a Spec: it runs without Go's runtime, can
// allocate nothing, and passes the image on to the kernel nearly as it is. It is a sequence of words of eight bytes in
// the machine's own order. The first ImageHeader words say where the parts are, as offsets from the start; a text ends
// with a zero byte, and a list of texts is the words of their offsets, ended by a zero word.
const (
	ImageVersion  = iota // Version
	ImageSize            // in bytes
	ImagePath            // of the program
	ImageCwd             // absolute; no part of it may be a symbolic link
	ImageArgv            // list
	ImageEnv             // list
	ImageRlimits         // three words each: resource, soft, hard
	ImageRlimitN         // how many
	ImageNice            // two's complement
	ImageTerminal        // rights to stdin, which becomes the controlling terminal; 0: it is none
	ImageFilter          // of a launcher: a struct sock_filter array
	ImageFilterN         // how many
	ImageSealed          // of a launcher: 1: it executes a descriptor instead of the path
	ImageBecomes         // of a launcher: 1: it becomes the user and the group of the next words
	ImageUID
	ImageGID
	ImageOwn // of a launcher: rights to what /proc has about the program itself; 0: none
	ImageHeader
)

const wordSize = 8

// image writes an image: the words first, then the texts.
type image struct {
	words []uint64
	texts []byte
	at    []int // words that are offsets of texts, from the start of the texts
}

func (m *image) word(v uint64) int {
	m.words = append(m.words, v)
	return len(m.words) - 1
}

// text adds a text and the word of its offset.
func (m *image) text(s string) {
	m.at = append(m.at, m.word(uint64(len(m.texts))))
	m.texts = append(append(m.texts, s...), 0)
}

func (m *image) list(texts []string) (start uint64) {
	start = uint64(len(m.words)) * wordSize
	for _, s := range texts {
		m.text(s)
	}
	m.word(0)
	return start
}

// LauncherImage returns what a launcher is given of a Spec; becomes: it changes to the Spec's user.
func LauncherImage(s *Spec, becomes bool) []byte {
	m := imageOf(s)
	m.at = append(m.at, ImageFilter)
	m.words[ImageFilter], m.words[ImageFilterN] = uint64(len(m.texts)), uint64(len(s.Filter)/filterSize)
	m.texts = append(m.texts, s.Filter...)
	for i := range s.Landlock.Rules {
		if r := &s.Landlock.Rules[i]; r.Path == OwnProcess {
			m.words[ImageOwn] |= r.Access
		}
	}
	if s.Sealed {
		m.words[ImageSealed] = 1
	}
	if becomes {
		m.words[ImageBecomes], m.words[ImageUID], m.words[ImageGID] = 1, uint64(s.Identity.UID), uint64(s.Identity.GID)
	}
	return m.bytes()
}

// imageOf returns the image of a Spec.
func imageOf(s *Spec) *image {
	m := &image{words: make([]uint64, ImageHeader, 256)}
	m.words[ImageVersion] = Version
	m.words[ImageArgv], m.words[ImageEnv] = m.list(s.Argv), m.list(s.Env)
	m.words[ImageRlimits], m.words[ImageRlimitN] = uint64(len(m.words))*wordSize, uint64(len(s.Rlimits))
	for _, r := range s.Rlimits {
		hard := r.Value
		if r.Resource == unix.RLIMIT_CPU && r.Value < unix.RLIM_INFINITY-1 {
			hard++ // or the kernel would kill without the SIGXCPU that shows the reason
		}
		m.word(uint64(r.Resource))
		m.word(r.Value)
		m.word(hard)
	}
	m.words[ImageNice] = uint64(int64(s.Nice))
	if s.Terminal {
		m.words[ImageTerminal] = ToTerminal & s.Landlock.FS
	}
	for _, at := range []int{ImagePath, ImageCwd} {
		m.at = append(m.at, at)
		m.words[at] = uint64(len(m.texts))
		m.texts = append(append(m.texts, map[int]string{ImagePath: s.Path, ImageCwd: s.Cwd}[at]...), 0)
	}
	return m
}

func (m *image) bytes() []byte {
	head := len(m.words) * wordSize
	for _, at := range m.at {
		m.words[at] += uint64(head)
	}
	m.words[ImageSize] = uint64(head + len(m.texts))
	b := make([]byte, 0, head+len(m.texts))
	for _, w := range m.words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return append(b, m.texts...)
}

// ToTerminal are the rights that programs need on their terminal, which they open again by the names that their own
// descriptors have in /proc.
const ToTerminal = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
	unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// checkImage refuses a Spec that a room's first process cannot run: what was applied when the room was built cannot be
// asked for again.
func (s *Spec) checkImage() error {
	switch {
	case s.Identity != nil:
		return errors.New("cell: image: a room has one user")
	case s.Sealed != s.Cover:
		return errors.New("cell: image: in a room a sealed program is laid over its path")
	}
	for _, r := range s.Rlimits {
		if r.Resource < 0 || r.Resource > 64 {
			return fmt.Errorf("cell: image: there is no limit %d", r.Resource)
		}
	}
	return nil
}
