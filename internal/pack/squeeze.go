package pack

import (
	"compress/flate"
	"encoding/binary"
	"encoding/hex"
	"io"
	"sync"
)

// What stands before squeezed bytes.
const (
	asHex     = 1 // a length and as many bytes, a length and as many bytes that stood in hex, and so on
	asDeflate = 2 // a raw DEFLATE stream
)

const (
	shortHex = 8   // hex digits that are worth a place of their own
	longText = 512 // what is longer is compressed: below that it takes longer than it is worth
)

// quick makes less of a text than the best that DEFLATE can, in a tenth of the time.
var quick = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, flate.BestSpeed) // fails for a level that is none
	return w
}}

// squeeze appends bytes in the form that takes least room for the time it takes. Most of what differs
// between two calls that are alike is digests.
func squeeze(to, b []byte) []byte {
	if len(b) <= longText {
		return appendHex(append(to, asHex), b)
	}
	return append(append(to, asDeflate), deflate(&quick, b)...)
}

// expanded undoes squeeze.
func expanded(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, errDamaged
	}
	switch b[0] {
	case asHex:
		return fromHex(b[1:])
	case asDeflate:
		return inflate(b[1:], 2*most, nil)
	}
	return nil, errDamaged
}

func appendHex(to, b []byte) []byte {
	for done, i := 0, 0; ; {
		n := 0
		for i+n < len(b) && isHex(b[i+n]) {
			n++
		}
		if n &^= 1; n < shortHex && i < len(b) {
			i += n + 1
			continue
		}
		i = min(i, len(b))
		to = append(binary.AppendUvarint(to, uint64(i-done)), b[done:i]...)
		if i == len(b) {
			return to
		}
		to = binary.AppendUvarint(to, uint64(n/2))
		at := len(to)
		to = append(to, make([]byte, n/2)...)
		_, _ = hex.Decode(to[at:], b[i:i+n]) // they are digits
		i += n
		done = i
	}
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func fromHex(b []byte) (out []byte, err error) {
	for plain := true; len(b) > 0; plain = !plain {
		n, ok := take(&b)
		if !ok || n > uint64(len(b)) || len(out)+2*int(n) > 2*most {
			return nil, errDamaged
		}
		if plain {
			out = append(out, b[:n]...)
		} else {
			out = hex.AppendEncode(out, b[:n])
		}
		b = b[n:]
	}
	return out, nil
}
