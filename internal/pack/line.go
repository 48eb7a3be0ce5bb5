package pack

import (
	_ "embed" // the words
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// lineVersion is the first byte of a packed line.
const lineVersion = 1

// mostLine bounds what a packed line may stand for, however it was made.
const mostLine = 1 << 20

// What a byte of a packed line begins. Values follow one another as they do in canonical bytes.
const (
	tagNull   = 0x01
	tagTrue   = 0x02
	tagFalse  = 0x03
	tagCount  = 0x04 // a whole number, as a uvarint
	tagNumber = 0x05 // any other number: its length and text
	tagText   = 0x06 // a string: its length and bytes
	tagDigest = 0x07 // "sha256:" and the hex digits of 32 bytes
	tagID     = 0x08 // the 26 characters of 16 bytes
	tagTime   = 0x09 // nanoseconds since 1970 in eight bytes
	tagList   = 0x0a // its length
	tagMap    = 0x0b // its length
	tagSame   = 0x0c // the digest or id that stood here as the n-th before
	tagWord   = 0x0d // a word of the list, from the 129th on
	tagShort  = 0x20 // a string of up to 31 bytes
	tagMaps   = 0x40 // a map of up to 15 members
	tagLists  = 0x50 // a list of up to 15
	tagWords  = 0x80 // one of the first 128 words
)

//go:embed words.txt
var wordList string

var words, wordIndex = func() ([]string, map[string]int) {
	list := strings.Fields(wordList)
	index := make(map[string]int, len(list))
	for i, w := range list {
		index[w] = i
	}
	return list, index
}()

var errLine = errors.New("pack: the line is damaged")

// Line returns the packed form of a journal line, which is canonical bytes: digests
// and ids in binary, known words as numbers. It uses no other compression, because
// verifying reads every line there is. What is not canonical is returned as it is.
func Line(text []byte) []byte {
	p := linePacker{whole: string(text), in: text, out: append(make([]byte, 0, len(text)/2), lineVersion)}
	for len(p.in) > 0 {
		if !p.value() {
			return text
		}
	}
	if len(text) == 0 || len(text) > mostLine || len(p.out) >= len(text) {
		return text
	}
	return p.out
}

type linePacker struct {
	whole   string   // all of the text
	in, out []byte   // what is still to be packed, and what was
	seen    []string // digests and ids, in the order of their first places
}

// value packs what stands next. Containers are only counted: their members follow.
func (p *linePacker) value() bool {
	tag := p.in[0]
	p.in = p.in[1:]
	switch tag {
	case 'z', 't', 'f':
		p.out = append(p.out, byte(strings.IndexByte("ztf", tag))+tagNull)
		return true
	case 's', 'n', 'l', 'm':
	default:
		return false
	}
	n, ok := p.count()
	if !ok {
		return false
	}
	switch tag {
	case 'l':
		p.container(tagLists, tagList, n)
		return true
	case 'm':
		p.container(tagMaps, tagMap, n)
		return true
	}
	if n > len(p.in) {
		return false
	}
	s := p.whole[len(p.whole)-len(p.in):][:n]
	p.in = p.in[n:]
	if tag == 'n' {
		p.number(s)
	} else {
		p.text(s)
	}
	return true
}

// count reads a decimal in its shortest form, and its colon.
func (p *linePacker) count() (int, bool) {
	for i, c := range p.in {
		if c != ':' {
			continue
		}
		n, ok := decimal(p.in[:i])
		p.in = p.in[i+1:]
		return n, ok
	}
	return 0, false
}

// decimal is a number of up to nine digits in its shortest form: longer ones count nothing that fits into a line.
func decimal(digits []byte) (n int, ok bool) {
	if len(digits) == 0 || len(digits) > 9 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func (p *linePacker) container(short, long byte, n int) {
	if n < 16 {
		p.out = append(p.out, short+byte(n))
		return
	}
	p.out = binary.AppendUvarint(append(p.out, long), uint64(n))
}

func (p *linePacker) number(s string) {
	if n, err := strconv.ParseUint(s, 10, 63); err == nil && strconv.FormatUint(n, 10) == s {
		p.out = binary.AppendUvarint(append(p.out, tagCount), n)
		return
	}
	p.out = append(binary.AppendUvarint(append(p.out, tagNumber), uint64(len(s))), s...)
}

func (p *linePacker) text(s string) {
	if i, ok := wordIndex[s]; ok {
		if i < 128 {
			p.out = append(p.out, tagWords+byte(i))
		} else {
			p.out = append(p.out, tagWord, byte(i-128))
		}
		return
	}
	if len(s) == len("sha256:")+64 && p.binary(s, tagDigest, digestBytes) || len(s) == idText && p.binary(s, tagID, idBytes) {
		return
	}
	if t, ok := moment(s); ok {
		p.out = binary.BigEndian.AppendUint64(append(p.out, tagTime), uint64(t.UnixNano()))
		return
	}
	if len(s) < 32 {
		p.out = append(p.out, tagShort+byte(len(s)))
	} else {
		p.out = binary.AppendUvarint(append(p.out, tagText), uint64(len(s)))
	}
	p.out = append(p.out, s...)
}

// moment reads a time as lines have it.
func moment(s string) (t time.Time, ok bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || s[4] != '-' || s[10] != 'T' { // nearly all that is no time
		return t, false
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil && momentText(t.UnixNano()) == s
}

// binary packs a digest or an id, or says where it stood before.
func (p *linePacker) binary(s string, tag byte, raw func(string) []byte) bool {
	for i, was := range p.seen {
		if was == s {
			p.out = binary.AppendUvarint(append(p.out, tagSame), uint64(i))
			return true
		}
	}
	b := raw(s)
	if b == nil {
		return false
	}
	p.seen = append(p.seen, s)
	p.out = append(append(p.out, tag), b...)
	return true
}

func momentText(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }

func digestBytes(s string) []byte {
	digits, ok := strings.CutPrefix(s, "sha256:")
	for i := range len(digits) {
		if c := digits[i]; c >= 'A' && c <= 'F' { // which is read, and would be written otherwise
			return nil
		}
	}
	b, err := hex.DecodeString(digits)
	if err != nil || !ok {
		return nil
	}
	return b
}

// An id is a ULID: 26 characters of five bits, the first of which has three.
const (
	idText   = 26
	alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

func idBytes(s string) []byte {
	var hi, lo uint64
	for i := range len(s) {
		v := strings.IndexByte(alphabet, s[i])
		if v < 0 || i == 0 && v > 7 {
			return nil
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(v)
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, hi), lo)
}

func appendID(b, raw []byte) []byte {
	hi, lo := binary.BigEndian.Uint64(raw), binary.BigEndian.Uint64(raw[8:])
	start := len(b)
	b = append(b, make([]byte, idText)...)
	for i := idText - 1; i >= 0; i-- {
		b[start+i] = alphabet[lo&31]
		hi, lo = hi>>5, lo>>5|hi<<59
	}
	return b
}

// AppendLine appends the line that Line was given.
func AppendLine(to, b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != lineVersion {
		return append(to, b...), nil
	}
	u := lineUnpacker{in: b[1:], out: to, start: len(to)}
	for len(u.in) > 0 {
		if !u.value() || len(u.out)-u.start > mostLine {
			return to, errLine
		}
	}
	return u.out, nil
}

type lineUnpacker struct {
	in, out []byte // what is still to be packed, and what was
	start   int
	seen    [][2]int // where in out digests and ids stand
}

func (u *lineUnpacker) value() bool {
	tag := u.in[0]
	u.in = u.in[1:]
	switch {
	case tag >= tagWords:
		return u.word(int(tag - tagWords))
	case tag >= tagLists && tag < tagLists+16:
		return u.counted('l', uint64(tag-tagLists))
	case tag >= tagMaps && tag < tagMaps+16:
		return u.counted('m', uint64(tag-tagMaps))
	case tag >= tagShort && tag < tagShort+32:
		return u.raw('s', uint64(tag-tagShort))
	case tag >= tagNull && tag <= tagFalse:
		u.out = append(u.out, "ztf"[tag-tagNull])
		return true
	case tag == tagDigest, tag == tagID:
		return u.binary(tag)
	case tag == tagTime:
		return u.moment()
	case tag == tagWord:
		if len(u.in) == 0 {
			return false
		}
		i := int(u.in[0]) + 128
		u.in = u.in[1:]
		return u.word(i)
	}
	return u.numbered(tag)
}

// numbered unpacks what begins with a uvarint.
func (u *lineUnpacker) numbered(tag byte) bool {
	n, size := binary.Uvarint(u.in)
	if size <= 0 || n > math.MaxInt64 {
		return false
	}
	u.in = u.in[size:]
	switch tag {
	case tagCount:
		s := strconv.FormatUint(n, 10)
		u.out = append(u.head('n', uint64(len(s))), s...)
		return true
	case tagNumber:
		return u.raw('n', n)
	case tagText:
		return u.raw('s', n)
	case tagList:
		return u.counted('l', n)
	case tagMap:
		return u.counted('m', n)
	case tagSame:
		if n >= uint64(len(u.seen)) {
			return false
		}
		at := u.seen[n]
		u.out = append(u.head('s', uint64(at[1]-at[0])), u.out[at[0]:at[1]]...)
		return true
	}
	return false
}

func (u *lineUnpacker) head(tag byte, n uint64) []byte {
	return append(strconv.AppendUint(append(u.out, tag), n, 10), ':')
}

func (u *lineUnpacker) counted(tag byte, n uint64) bool {
	u.out = u.head(tag, n)
	return true
}

func (u *lineUnpacker) raw(tag byte, n uint64) bool {
	if n > uint64(len(u.in)) {
		return false
	}
	u.out = append(u.head(tag, n), u.in[:n]...)
	u.in = u.in[n:]
	return true
}

func (u *lineUnpacker) word(i int) bool {
	if i >= len(words) {
		return false
	}
	u.out = append(u.head('s', uint64(len(words[i]))), words[i]...)
	return true
}

func (u *lineUnpacker) binary(tag byte) bool {
	size := 32
	if tag == tagID {
		size = 16
	}
	if len(u.in) < size {
		return false
	}
	raw := u.in[:size]
	u.in = u.in[size:]
	if tag == tagID {
		u.out = appendID(u.head('s', idText), raw)
		u.seen = append(u.seen, [2]int{len(u.out) - idText, len(u.out)})
		return true
	}
	u.out = hex.AppendEncode(append(u.head('s', 71), "sha256:"...), raw)
	u.seen = append(u.seen, [2]int{len(u.out) - 71, len(u.out)})
	return true
}

func (u *lineUnpacker) moment() bool {
	if len(u.in) < 8 {
		return false
	}
	s := momentText(int64(binary.BigEndian.Uint64(u.in)))
	u.in = u.in[8:]
	u.out = append(u.head('s', uint64(len(s))), s...)
	return true
}
