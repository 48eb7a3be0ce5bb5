package gpgagent

import (
	"bytes"
	"errors"
	"strconv"
)

var errExpression = errors.New("gpgagent: an expression that is none")

// numbers reads the pairs of a name and a value that an expression of libgcrypt has, however deep they lie:
// (7:sig-val(3:rsa(1:s256:…))). A name that is there twice is an error.
func numbers(text []byte) (map[string][]byte, error) {
	out := map[string][]byte{}
	var list [][]byte // of the innermost list
	for depth := 0; len(text) > 0; {
		switch text[0] {
		case '(':
			if depth++; depth > 8 {
				return nil, errExpression
			}
			list, text = nil, text[1:]
		case ')':
			if depth--; depth < 0 {
				return nil, errExpression
			}
			if len(list) == 2 {
				if _, again := out[string(list[0])]; again {
					return nil, errExpression
				}
				out[string(list[0])] = list[1]
			}
			list, text = nil, text[1:]
		default:
			size, rest, ok := bytes.Cut(text, []byte(":"))
			n, err := strconv.ParseUint(string(size), 10, 16)
			if !ok || err != nil || uint64(len(rest)) < n || depth == 0 {
				return nil, errExpression
			}
			list, text = append(list, rest[:n]), rest[n:]
		}
		if len(text) == 0 && depth != 0 {
			return nil, errExpression
		}
	}
	return out, nil
}
